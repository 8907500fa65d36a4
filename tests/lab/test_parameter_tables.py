"""The parameters in the documents are those of the core."""

from parameter_tables import PAGE, written


def test_the_table_of_queue_disciplines_is_what_the_core_tells():
    page = PAGE.read_text()
    assert page == written(page), "write it with: python tests/lab/parameter_tables.py"

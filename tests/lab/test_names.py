"""Names that a scenario may give to its nodes are what the kernel and the resolver take.

The oracles are the kernel, in a namespace of its own, and glibc's resolver on a lab's hosts file.
"""

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig import lab_lacks

from weir.errors import BadInput
from weir.lab import parse
from weir.lab.addressing import plan

# Words that the kernel, iproute2, the resolver or the shell have a meaning for.
WORDS = ["default", "all", "lo", "any", "none", "dev", "up", "via", "local", "help", "if1", "link"]
WORDS += ["sit0", "tunl0", "gre0", "localhost", "localhost4", "xn--a", "a--b", "a-", "x" * 63]
NAMES = st.one_of(
    st.sampled_from(WORDS).flatmap(
        lambda word: st.sampled_from([word, word.upper(), word.title()])
    ),
    st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,4}", fullmatch=True),
    st.from_regex(r"node-with-a-name-of-s[A-Za-z0-9-]{0,42}", fullmatch=True),
)


@pytest.fixture(autouse=True)
def _needs_namespaces():
    if missing := lab_lacks():
        pytest.skip(f"namespaces need {missing}")


def star(names):
    """A scenario in which a router in the middle has a device for each of the hosts."""
    hosts = "".join(f"{name} = {{}}\n" for name in names)
    links = "".join(f'[[link]]\nends = ["{name}", "middle"]\n' for name in names)
    return f"[hosts]\n{hosts}[routers]\nmiddle = {{}}\n{links}"


def kernel_takes(devices):
    """Whether a namespace can have TUN devices of these names, all together."""
    lines = "".join(f"tuntap add dev {device} mode tun\n" for device in devices)
    command = ["unshare", "--net", "ip", "-batch", "-"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    return done.returncode == 0


def resolved(hosts_file, names):
    """The address that each name leads to where `hosts_file` is /etc/hosts; "" for none."""
    ask = 'mount --bind "$0" /etc/hosts; for name; do getent ahostsv4 "$name" | head -1; echo; done'
    command = ["unshare", "--mount", "sh", "-c", ask, str(hosts_file), *names]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split(" ")[0] for line in lines.split("\n") if line]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(names=st.lists(NAMES, min_size=1, max_size=8, unique=True))
def test_what_loads_has_devices_and_leads_to_its_own_address(names, tmp_path):
    try:
        decided = plan(parse(star(names)))
    except BadInput:
        return
    assert kernel_takes([pair[1].device for pair in decided.ports.values()])
    hosts_file = tmp_path / "hosts"
    hosts_file.write_text(decided.hosts_file())
    assert resolved(hosts_file, decided.addresses) == list(decided.addresses.values())


@pytest.mark.parametrize("name", ["all", "default", "lo"])
def test_what_is_refused_as_the_kernels_own_is(name):
    assert not kernel_takes([name])
    with pytest.raises(BadInput, match=f"scenario:2: .*{name}"):
        parse(star([name]))


def test_odd_names_come_up_and_are_reached(lab_of):
    names = ["sit0", "Default", "ALL", "none", "dev", "xn--a", "a--b", "x" * 63]
    lab = lab_of(star(names))
    for name in names:
        reply = lab.run("middle", ["ping", "-c", "1", name], capture_output=True, text=True).stdout
        assert f"({lab.address(name)})" in reply

"""Switches that connect with TLS, and those that may not."""

import asyncio
import json
import shutil
import ssl
import subprocess
from dataclasses import replace

import pytest
from ovs_rig import ovs as ovs
from rig import WEIR, until_async
from test_control_cli import NETWORK
from test_control_ovs import Controller, square

from weir.calendar.network import parse_network
from weir.cli import main
from weir.control.listening import Identity, names
from weir.errors import BadInput


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The files of two authorities, each with a server's and a client's keys."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "others"):
        subprocess.run([WEIR, "keys", "init", folder / name], check=True, capture_output=True)
    return folder


def identity(folder):
    return Identity(folder / "server.key", folder / "server.pem", folder / "ca.pem")


def meet(ovs, keys, listen, speak, holds, files=None, bound=None):
    """What a controller says until `holds(controller)`, to whom switches speak ssl or tcp.

    `files` are a switch's key, its certificate and its authority's, `bound` are names by switch.
    """

    async def work():
        controller = Controller(replace(square(), certificates=bound or {}), {})
        server = await controller.switches.listen(
            listen, identity(keys / "ours") if listen.startswith("ssl:") else None
        )
        controller.server = server
        controller.running = asyncio.create_task(controller.switches.run())
        port = server.sockets[0].getsockname()[1]
        if files:
            argv = ["ovs-vsctl", f"--db=unix:{ovs.folder}/db.sock", "set-ssl", *map(str, files)]
            await asyncio.to_thread(ovs.run, *argv)
        await asyncio.to_thread(ovs.build, square(), f"{speak}:127.0.0.1:{port}")
        try:
            await until_async(lambda: holds(controller), lambda: controller.told)
            return controller.said()
        finally:
            await controller.stop()

    return asyncio.run(work())


def test_switches_with_certificates_of_the_authority_are_controlled(ovs, keys):
    ours = keys / "ours"
    said = meet(
        ovs,
        keys,
        "ssl:127.0.0.1:0",
        "ssl",
        lambda x: len(x.core.connected()) == 3 and x.core.is_settled(),
        [ours / "client.key", ours / "client.pem", ours / "ca.pem"],
    )
    assert sorted(said) == [f"switch {name} is connected" for name in ("s1", "s2", "s3")]
    assert any("nw_dst=10.0.0.1" in line for line in ovs.flows("s3"))


def test_a_switch_that_is_bound_to_anothers_certificate_is_turned_away(ovs, keys):
    ours = keys / "ours"
    turned_away = []

    def holds(controller):
        turn_away = controller.switches.turn_away
        if not turned_away:
            turned_away.append("wrapped")
            controller.switches.turn_away = lambda *x: turned_away.append(x) or turn_away(*x)
        return len(controller.core.connected()) == 2 and len(turned_away) > 3

    files = [ours / "client.key", ours / "client.pem", ours / "ca.pem"]
    bound = {"s1": "client", "s2": "machine2"}
    said = meet(ovs, keys, "ssl:127.0.0.1:0", "ssl", holds, files, bound)
    assert sorted(said) == [
        '127.0.0.1 says that it is s2, whose certificate is to name "machine2", and its own names '
        '"client"',
        "switch s1 is connected",
        "switch s3 is connected",
    ]
    assert ovs.flows("s2") == []


def test_a_certificate_names_its_holder_in_two_ways(keys, tmp_path):
    key, pem = tmp_path / "key", tmp_path / "pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-subj", "/O=Lab/CN=one", "-addext", "subjectAltName=DNS:two,IP:10.0.0.1"]
    subprocess.run([*argv, "-keyout", key, "-out", pem], check=True, capture_output=True)
    context = ssl.create_default_context(cafile=pem)
    [certificate] = context.get_ca_certs()
    assert names(certificate) == {"one", "two"}


def test_switches_that_are_bound_to_certificates_need_tls():
    controller = Controller(replace(square(), certificates={"s2": "machine2"}), {})
    with pytest.raises(BadInput, match="binds s2 to certificates, which --listen 127"):
        asyncio.run(controller.switches.listen("127.0.0.1:0"))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"address": "10.0.0.1", "certificate": "x"}, "certificate is for switches"),
        ({"datapath": "1", "certificate": 7}, "nodes.a: certificate: 7 is not a name"),
    ],
)
def test_a_file_that_binds_what_cannot_be_bound_is_refused(node, message):
    links = [{"ends": ["a", "b"], "capacity": "1 Gbit/s"}]
    with pytest.raises(BadInput, match=message):
        parse_network({"nodes": {"a": node, "b": {}}, "links": links})
    good = {"datapath": "1", "certificate": "machine1"}
    made = parse_network({"nodes": {"a": good, "b": {}}, "links": links})
    assert made.certificates == {"a": "machine1"}


STRANGERS = {
    "another authority": "its certificate is not one of the authority's",
    "does not know ours": "it does not accept the controller's certificate",
    "without TLS": "it does not speak TLS: set its controller to ssl:HOST:PORT",
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_who_has_no_right_certificate_is_turned_away_and_this_is_said_once(ovs, keys, kind):
    ours, others = keys / "ours", keys / "others"
    files = {
        "another authority": [others / "client.key", others / "client.pem", ours / "ca.pem"],
        "does not know ours": [ours / "client.key", ours / "client.pem", others / "ca.pem"],
    }.get(kind)
    attempts = []

    def holds(controller):
        turn_away = controller.switches.turn_away
        if not attempts:
            attempts.append("wrapped")
            controller.switches.turn_away = lambda *why: attempts.append(why) or turn_away(*why)
        return len(attempts) > 3

    speak = "tcp" if kind == "without TLS" else "ssl"
    said = meet(ovs, keys, "ssl:127.0.0.1:0", speak, holds, files)
    assert said == [f"127.0.0.1: {STRANGERS[kind]}"]
    assert ovs.flows("s1") == []


def test_who_has_no_certificate_at_all_is_turned_away(keys):
    async def work():
        controller = Controller(square(), {})
        server = await controller.switches.listen("ssl:127.0.0.1:0", identity(keys / "ours"))
        port = server.sockets[0].getsockname()[1]
        for _ in range(3):
            argv = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}"]
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            async with asyncio.timeout(60):
                await process.wait()
        server.close()
        await controller.switches.close()
        return controller.said()

    said = asyncio.run(work())
    assert said == ["127.0.0.1: it has no certificate (ovs-vsctl set-ssl)"]


def test_a_switch_that_speaks_tls_where_there_is_none_is_told(ovs, keys):
    ours = keys / "ours"
    files = [ours / "client.key", ours / "client.pem", ours / "ca.pem"]
    said = meet(ovs, keys, "127.0.0.1:0", "ssl", lambda x: bool(x.told), files)
    assert said == ["127.0.0.1: it speaks TLS, and --listen is without: ssl:HOST:PORT is with"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"certificate": "nothing"}, "nothing: No such file or directory"),
        ({"ca_cert": "empty"}, r"empty is not a certificate of an authority \(PEM\)"),
        ({"private_key": "client.key"}, r"server.pem is another key's \("),
        ({"certificate": "empty"}, "empty and its key are not PEM without a password"),
        ({"private_key": "locked.key"}, "server.pem and its key are not PEM without a password"),
    ],
)
def test_files_that_will_not_do_are_one_message(tmp_path, keys, changes, message):
    folder = tmp_path / "keys"
    shutil.copytree(keys / "ours", folder)
    (folder / "empty").touch()
    argv = ["openssl", "ec", "-in", folder / "server.key", "-aes128", "-passout", "pass:x"]
    subprocess.run([*argv, "-out", folder / "locked.key"], check=True, capture_output=True)
    files = {"private_key": "server.key", "certificate": "server.pem", "ca_cert": "ca.pem"}
    with pytest.raises(BadInput, match=message):
        Identity(**{x: folder / y for x, y in (files | changes).items()}).context()


@pytest.mark.parametrize(
    ("listen", "given", "message"),
    [
        ("ssl:127.0.0.1:0", [], "needs --private-key, --certificate and --ca-cert"),
        ("ssl:127.0.0.1:0", ["private-key", "certificate"], "--ca-cert: the three files go"),
        ("127.0.0.1:0", ["private-key", "certificate", "ca-cert"], "are for ssl:HOST:PORT, and"),
    ],
)
def test_tls_and_its_files_go_together(tmp_path, keys, capsys, listen, given, message):
    path = tmp_path / "network.json"
    path.write_text(json.dumps(NETWORK))
    words = ["control", "serve", "--network", str(path), "--listen", listen]
    assert main([*words, *options(keys / "ours", given)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def options(folder, given=("private-key", "certificate", "ca-cert")):
    files = {"private-key": "server.key", "certificate": "server.pem", "ca-cert": "ca.pem"}
    return [word for name in given for word in (f"--{name}", str(folder / files[name]))]


def test_it_says_that_it_listens_with_tls(tmp_path, keys):
    path = tmp_path / "network.json"
    path.write_text(json.dumps(NETWORK))
    command = [WEIR, "control", "serve", "--network", str(path), "--listen", "ssl:127.0.0.1:0"]
    command += options(keys / "ours")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("listening for 1 switches at ssl:127.0.0.1:")
        process.terminate()
        assert process.wait(60) == 0

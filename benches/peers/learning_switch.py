"""A learning switch on os-ken, written for this benchmark in the way of simple_switch_13.

    python learning_switch.py PORT

What comes for an address that is not known is flooded; once it is known, a rule is installed. When
a port goes, what went by it is forgotten.
"""

import sys
from typing import Any

from os_ken.base import app_manager
from os_ken.cfg import CONF
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.lib.packet import ethernet
from os_ken.lib.packet import packet as packets
from os_ken.ofproto import ofproto_v1_3


class LearningSwitch(app_manager.OSKenApp):
    """By switch, the port of every address that has been seen."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 - so os-ken asks for it

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ports: dict[int, dict[str, int]] = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, event: Any) -> None:
        """What is not known comes here."""
        switch = event.msg.datapath
        self.ports[switch.id] = {}
        self.add(switch, 0, switch.ofproto_parser.OFPMatch(), switch.ofproto.OFPP_CONTROLLER)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet(self, event: Any) -> None:
        """Learns where it came from, and sends it on."""
        message, switch = event.msg, event.msg.datapath
        parser, known = switch.ofproto_parser, self.ports[event.msg.datapath.id]
        came_by = message.match["in_port"]
        frame = packets.Packet(message.data).get_protocol(ethernet.ethernet)
        known[frame.src] = came_by
        goes_by = known.get(frame.dst, switch.ofproto.OFPP_FLOOD)
        if goes_by != switch.ofproto.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=came_by, eth_dst=frame.dst, eth_src=frame.src)
            self.add(switch, 1, match, goes_by)
        switch.send_msg(
            parser.OFPPacketOut(
                datapath=switch,
                buffer_id=switch.ofproto.OFP_NO_BUFFER,
                in_port=came_by,
                actions=[parser.OFPActionOutput(goes_by)],
                data=message.data,
            )
        )

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def on_port(self, event: Any) -> None:
        """Forgets what went by a port that is gone."""
        message, switch = event.msg, event.msg.datapath
        if message.reason != switch.ofproto.OFPPR_DELETE:
            return
        gone, known = message.desc.port_no, self.ports[switch.id]
        self.ports[switch.id] = {x: port for x, port in known.items() if port != gone}
        switch.send_msg(
            switch.ofproto_parser.OFPFlowMod(
                datapath=switch,
                command=switch.ofproto.OFPFC_DELETE,
                out_port=gone,
                out_group=switch.ofproto.OFPG_ANY,
                match=switch.ofproto_parser.OFPMatch(),
            )
        )

    def add(self, switch: Any, priority: int, match: Any, port: int) -> None:
        """Installs a rule that sends packets to a port."""
        parser = switch.ofproto_parser
        output = parser.OFPActionOutput(port, switch.ofproto.OFPCML_NO_BUFFER)
        apply = switch.ofproto.OFPIT_APPLY_ACTIONS
        switch.send_msg(
            parser.OFPFlowMod(
                datapath=switch,
                priority=priority,
                match=match,
                instructions=[parser.OFPInstructionActions(apply, [output])],
            )
        )


def main() -> None:
    """Until it is killed."""
    listen = ["--ofp-tcp-listen-port", sys.argv[1], "--ofp-listen-host", "127.0.0.1"]
    CONF(args=listen, project="os_ken", default_config_files=[])
    manager = app_manager.AppManager.get_instance()
    manager.load_apps(["learning_switch", "os_ken.controller.ofp_handler"])
    hub.joinall(manager.instantiate_apps(**manager.create_contexts()))


if __name__ == "__main__":
    main()

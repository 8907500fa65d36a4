from weir.reproduce.access_line import *
import json, statistics
from dataclasses import dataclass
T2 = Line(20_000_000, 20_000_000)
@dataclass
class E:
    queue: dict
    player: str
    background: dict
Q = {"DualQ": dual_curvy_red(62_500_000, 2.0), "RED": red(ecn=False), "PIE": pie(ecn=False), "FQ": fq_codel(), "DualPI2": dual_pi2()}
EXP = {"H1": ("DualQ","ctcp",{"reno":10}), "H2": ("DualQ","dctcp-windows",{"dctcp":10}),
"H3": ("RED","ctcp",{"reno":10}), "H4": ("RED","dctcp-windows",{"reno":10}),"H5": ("PIE","ctcp",{"reno":10}),"H6": ("FQ","ctcp",{"reno":10}),
"H7": ("DualQ","ctcp",{"dctcp":5,"reno":5}),"H8": ("DualQ","dctcp-windows",{"dctcp":5,"reno":5}),
"P1": ("DualPI2","ctcp",{"reno":10}),"P2": ("DualPI2","prague",{"prague":10}),"P8":("DualPI2","prague",{"prague":5,"reno":5}),"B":("FQ","bbr3",{"bbr3":10}),"BP":("PIE","bbr3",{"bbr3":10})}
LEVELS=(230,331,477,688,991,1427,2056,2962)
def run(e, seconds, seed, m=10, c=1.0, queue=None):
    q,p,b=EXP[e]
    traffic=long_flows(b,seed)+[{"name":"player","application":{"kind":"video","tcp":control(p),"samples":m,"caution":c,"of_both":True}}]
    a=T2.run(queue or Q[q],traffic,seconds,seed)
    v=a["flows"][-1]["application"]
    t=sum(v["level_ns"])
    return {"levels":[round(x/t,3) for x in v["level_ns"]],"stalls":v["stalls"],"sw":v["switches"],"queue":T2.queue(a),"rates":{k:round(mean(mbit_s(a,k)),2) for k in b},"player":round(a["flows"][-1]["goodput_bps"]/1e6,2)}

// A dumbbell in ns-3: n senders, one bottleneck, n receivers; prints one JSON object.
//
// usage: ns3_dumbbell --flows cubic,cubic,bbr --rate 100000000 --rtt_ns 20000000
//          --buffer 250000 --queue fifo --seconds 30 --from 5
//
// The access links have 10 Gbit/s and no delay; the bottleneck has half the
// round trip each way. `--buffer` is the queue's limit in bytes of IP packets, as Weir counts them.
// `--from` leaves the start out of goodput, losses and the mean queue.

#include <ctime>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

uint64_t g_sent = 0;       // packets that left the bottleneck's queue
uint64_t g_dropped = 0;    // packets it dropped
uint64_t g_marked = 0;     // packets it marked
double g_sojourn_s = 0.0;  // their waiting times together
bool g_counting = false;

void Sent(Ptr<const Packet>) { g_sent += 1; }
void Dropped(Ptr<const QueueDiscItem>) { g_dropped += g_counting; }
void Marked(Ptr<const QueueDiscItem>, const char*) { g_marked += g_counting; }

uint64_t g_waited = 0;
void Waited(Time sojourn) {
    if (!g_counting) return;
    g_sojourn_s += sojourn.GetSeconds();
    g_waited += 1;
}

std::string Control(const std::string& name) {
    if (name == "reno") return "ns3::TcpLinuxReno";
    if (name == "cubic") return "ns3::TcpCubic";
    if (name == "bbr") return "ns3::TcpBbr";
    if (name == "dctcp") return "ns3::TcpDctcp";
    NS_ABORT_MSG("no congestion control \"" << name << "\": reno, cubic, bbr, dctcp");
}

double ProcessorSeconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
    std::string flows = "cubic", queue = "fifo";
    uint64_t rate = 100'000'000, rttNs = 20'000'000, buffer = 250'000;
    double seconds = 20, from = 0;
    uint32_t seed = 1;
    bool ecn = false;
    CommandLine line;
    line.AddValue("flows", "congestion controls, one for each flow, by commas", flows);
    line.AddValue("rate", "of the bottleneck, bit/s", rate);
    line.AddValue("rtt_ns", "round-trip time without queues", rttNs);
    line.AddValue("buffer", "bytes that may wait", buffer);
    line.AddValue("queue", "fifo, codel, fq-codel, pie", queue);
    line.AddValue("seconds", "simulated", seconds);
    line.AddValue("from", "start of the measurement", from);
    line.AddValue("seed", "of the run", seed);
    line.AddValue("ecn", "whether the endpoints negotiate ECN", ecn);
    line.Parse(argc, argv);
    RngSeedManager::SetRun(seed);
    std::vector<std::string> controls;
    std::stringstream words(flows);
    for (std::string word; std::getline(words, word, ',');) controls.push_back(word);
    const auto n = static_cast<uint32_t>(controls.size());

    // As the kernel: MSS 1448 with timestamps, initial window 10, buffers never in the way.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn ? "On" : "Off"));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::CoDelQueueDisc::UseEcn", BooleanValue(ecn));
    Config::SetDefault("ns3::PieQueueDisc::UseEcn", BooleanValue(ecn));

    NodeContainer senders, receivers, routers;
    senders.Create(n);
    receivers.Create(n);
    routers.Create(2);
    PointToPointHelper access, bottleneck;
    access.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    access.SetChannelAttribute("Delay", TimeValue(NanoSeconds(0)));
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    bottleneck.SetChannelAttribute("Delay", TimeValue(NanoSeconds(rttNs / 2)));
    // One packet at the device, so that what waits waits in the queue discipline.
    bottleneck.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
    InternetStackHelper stack;
    stack.Install(senders);
    stack.Install(receivers);
    stack.Install(routers);
    NetDeviceContainer middle = bottleneck.Install(routers);

    TrafficControlHelper control;
    const std::map<std::string, std::string> disciplines = {
        {"fifo", "ns3::FifoQueueDisc"},
        {"codel", "ns3::CoDelQueueDisc"},
        {"pie", "ns3::PieQueueDisc"},
        {"fq-codel", "ns3::FqCoDelQueueDisc"},
    };
    const auto discipline = disciplines.find(queue);
    NS_ABORT_MSG_IF(discipline == disciplines.end(), "no queue \"" << queue << "\"");
    if (queue == "fq-codel") {
        control.SetRootQueueDisc(discipline->second);
    } else {
        const StringValue limit(std::to_string(buffer) + "B");
        control.SetRootQueueDisc(discipline->second, "MaxSize", limit);
    }
    QueueDiscContainer queues = control.Install(middle);
    queues.Get(0)->TraceConnectWithoutContext("Drop", MakeCallback(&Dropped));
    queues.Get(0)->TraceConnectWithoutContext("Mark", MakeCallback(&Marked));
    queues.Get(0)->TraceConnectWithoutContext("SojournTime", MakeCallback(&Waited));
    middle.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Sent));

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    addresses.Assign(middle);
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < n; i++) {
        const auto left = access.Install(senders.Get(i), routers.Get(0));
        const auto right = access.Install(receivers.Get(i), routers.Get(1));
        addresses.NewNetwork();
        addresses.Assign(left);
        addresses.NewNetwork();
        const auto at = addresses.Assign(right).GetAddress(0);
        const TypeId type = TypeId::LookupByName(Control(controls[i]));
        const std::string node = std::to_string(senders.Get(i)->GetId());
        Config::Set("/NodeList/" + node + "/$ns3::TcpL4Protocol/SocketType", TypeIdValue(type));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(at, 5000));
        bulk.SetAttribute("MaxBytes", UintegerValue(0));
        bulk.SetAttribute("SendSize", UintegerValue(65536));
        const auto sender = bulk.Install(senders.Get(i));
        sender.Start(Seconds(0.01 * i));
        const InetSocketAddress any(Ipv4Address::GetAny(), 5000);
        PacketSinkHelper sink("ns3::TcpSocketFactory", any);
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(receivers.Get(i)).Get(0)));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    std::vector<uint64_t> before(n, 0);
    uint64_t sentBefore = 0;
    Simulator::Schedule(Seconds(from), [&] {
        g_counting = true;
        sentBefore = g_sent;
        for (uint32_t i = 0; i < n; i++) before[i] = sinks[i]->GetTotalRx();
    });
    Simulator::Stop(Seconds(seconds));
    const double start = ProcessorSeconds();
    Simulator::Run();
    const double cpu = ProcessorSeconds() - start;

    const uint64_t counted = g_sent - sentBefore;
    const double meanQueue = g_waited ? g_sojourn_s / static_cast<double>(g_waited) : 0.0;
    std::cout << "{\"cpu_s\": " << cpu << ", \"packets\": " << g_sent
              << ", \"packets_per_cpu_s\": " << static_cast<double>(g_sent) / cpu
              << ", \"events\": " << Simulator::GetEventCount() << ", \"loss\": "
              << static_cast<double>(g_dropped) / static_cast<double>(counted + g_dropped)
              << ", \"marked\": " << static_cast<double>(g_marked) / static_cast<double>(counted)
              << ", \"mean_queue_s\": " << meanQueue
              << ", \"goodput_bps\": [";
    for (uint32_t i = 0; i < n; i++) {
        const double bytes = static_cast<double>(sinks[i]->GetTotalRx() - before[i]);
        std::cout << (i ? ", " : "") << static_cast<uint64_t>(bytes * 8 / (seconds - from));
    }
    std::cout << "]}" << std::endl;
    Simulator::Destroy();
}

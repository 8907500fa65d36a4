// Runs the flows of a Weir trace file (crates/fluid/src/trace.rs) in SimGrid: one line of JSON
// with the processor time of the run, and every completion time where asked for.
//
// usage: simgrid_flows TRACE [COMPLETIONS] [--cfg=KEY:VALUE ...]
//
// SimGrid's flow model shares links by max-min fairness weighted by the inverse of the round trip.
// To make it plain max-min, links have no latency and the corrections for TCP are off: CM02 with
// bandwidth and latency factors of 1, no weight for slow links (weight-S), no window limit
// (TCP-gamma), no traffic of acknowledgements (crosstraffic).

#include <simgrid/s4u.hpp>

#include <ctime>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Link {
  std::string from, to;
  sg4::Link* link;
};
struct Route {
  sg4::Host *source, *destination;
};
struct Flow {
  double at;
  std::size_t route;
  double bytes;
};

class Trace {
public:
  explicit Trace(const std::string& path) : zone_(sg4::create_full_zone("trace")) {
    std::ifstream file(path);
    if (!file)
      throw std::runtime_error("cannot read " + path);
    std::string line, kind;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      if (!(words >> kind) || kind[0] == '#')
        continue;
      if (kind == "link")
        add_link(words);
      else if (kind == "route")
        add_route(words);
      else if (kind == "flow")
        add_flow(words);
      else
        throw std::runtime_error("unknown line: " + line);
    }
    zone_->seal();
  }

  const std::vector<Route>& routes() const { return routes_; }
  const std::vector<Flow>& flows() const { return flows_; }
  sg4::Host* any_host() const { return hosts_.begin()->second; }

private:
  void add_link(std::istringstream& words) {
    std::string from, to;
    double bit_per_s;
    words >> from >> to >> bit_per_s;
    auto* link = zone_->create_link(from + "-" + to, bit_per_s / 8)->set_latency(0)->seal();
    links_.push_back({from, to, link});
  }

  sg4::Host* host(const std::string& name) {
    auto [place, is_new] = hosts_.try_emplace(name, nullptr);
    if (is_new)
      place->second = zone_->create_host(name, 1e9)->seal();
    return place->second;
  }

  void add_route(std::istringstream& words) {
    std::vector<sg4::LinkInRoute> over;
    std::size_t at, first = links_.size(), last = 0;
    while (words >> at) {
      if (over.empty())
        first = at;
      last = at;
      over.emplace_back(links_.at(at).link);
    }
    Route route{host(links_.at(first).from), host(links_.at(last).to)};
    zone_->add_route(route.source->get_netpoint(), route.destination->get_netpoint(), nullptr,
                     nullptr, over, false);
    routes_.push_back(route);
  }

  void add_flow(std::istringstream& words) {
    double at_ns, bytes;
    std::size_t route;
    words >> at_ns >> route >> bytes;
    flows_.push_back({at_ns * 1e-9, route, bytes});
  }

  sg4::NetZone* zone_;
  std::vector<Link> links_;
  std::map<std::string, sg4::Host*> hosts_;
  std::vector<Route> routes_;
  std::vector<Flow> flows_;
};

static double processor_s() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int main(int argc, char** argv) {
  // What is given on the command line comes later and wins.
  std::vector<std::string> arguments{
      argv[0],
      "--log=root.threshold:warning",
      "--cfg=network/model:CM02",
      "--cfg=network/bandwidth-factor:1",
      "--cfg=network/latency-factor:1",
      "--cfg=network/weight-S:0",
      "--cfg=network/TCP-gamma:0",
      "--cfg=network/crosstraffic:0",
  };
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  std::vector<char*> pointers;
  for (auto& argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  argc = static_cast<int>(arguments.size());
  argv = pointers.data();
  sg4::Engine engine(&argc, argv); // takes its own arguments out
  if (argc < 2) {
    std::cerr << "usage: simgrid_flows TRACE [COMPLETIONS]\n";
    return 2;
  }
  const Trace trace(argv[1]);
  std::vector<sg4::CommPtr> comms;
  comms.reserve(trace.flows().size());
  sg4::Actor::create("source", trace.any_host(), [&]() {
    for (const auto& flow : trace.flows()) {
      const double wait = flow.at - sg4::Engine::get_clock();
      if (wait > 0)
        sg4::this_actor::sleep_for(wait);
      const auto& route = trace.routes().at(flow.route);
      comms.push_back(sg4::Comm::sendto_async(route.source, route.destination, flow.bytes));
    }
    for (const auto& comm : comms)
      comm->wait();
  });
  const double start = processor_s();
  engine.run();
  const double cpu_s = processor_s() - start;
  std::cout << "{\"flows\": " << comms.size() << ", \"cpu_s\": " << cpu_s
            << ", \"flows_per_cpu_s\": " << static_cast<double>(comms.size()) / cpu_s
            << ", \"end_s\": " << std::setprecision(12) << sg4::Engine::get_clock() << "}\n";
  if (argc > 2) {
    std::ofstream file(argv[2]);
    file << std::fixed << std::setprecision(9);
    for (const auto& comm : comms)
      file << comm->get_finish_time() << "\n";
  }
}

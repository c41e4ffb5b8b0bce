@0xddb4d6a7a9e4718c;
# Records of the control store as they lie in Redis: hash field = id, value = one packed message.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Cluster = import "cluster.capnp";
$Cxx.namespace("troupe::wire");

struct NodeRecord { info @0 :Cluster.NodeInfo; alive @1 :Bool; joinedUnix @2 :Int64; reason @3 :Text; }
struct JobRecord { info @0 :Cluster.JobInfo; ended @1 :Bool; startedUnix @2 :Int64; endedUnix @3 :Int64; reason @4 :Text; process @5 :UInt64; }
struct ActorRecord {
  spec @0 :Cluster.ActorSpec; job @1 :UInt64; incarnation @2 :UInt32; phase @3 :Common.ActorPhase;
  node @4 :UInt64; process @5 :UInt64; gpus @6 :List(UInt16); restarts @7 :UInt32; failure @8 :Common.Failure;
  served @9 :Bool; home @10 :Text;  # durable: some incarnation was alive; the node that has its files
}

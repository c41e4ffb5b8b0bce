@0xac02568a3a8aa68d;
# Types that more than one plane or layer uses.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");

struct Failure {
  # How an error crosses between processes. Mirrors troupe::Error (core/base/error.h).
  kind @0 :UInt16;          # troupe::ErrorKind
  type @1 :Text;            # C++ type name of the exception, empty for errors of the system
  message @2 :Text;
  backtrace @3 :List(Text); # of the process that threw
  actor @4 :UInt64;         # 0: none
  incarnation @5 :UInt32;
  node @6 :UInt64;
  cause @7 :Failure;
}

struct Amount {
  # One resource, in fixed point: 10,000 units are one CPU, one GPU, one byte-count entry, one custom unit.
  name @0 :Text;
  units @1 :Int64;
}

struct Endpoint {
  # Where a process takes links. Callers with the same host id use the Unix socket, others TCP.
  process @0 :UInt64;
  node @1 :UInt64;
  hostId @2 :Text;
  unixPath @3 :Text;
  tcpHost @4 :Text;
  tcpPort @5 :UInt16;
  lane @6 :UInt16;          # the lane of the process that holds the actor
  pid @7 :Int32;            # on its host
}

enum Isolation { process @0; light @1; }

enum ActorPhase { pending @0; starting @1; alive @2; restarting @3; dead @4; }

struct ActorState {
  # What a caller must know of an actor. For dead and restarting actors `failure` says why.
  actor @0 :UInt64;
  incarnation @1 :UInt32;
  phase @2 :ActorPhase;
  endpoint @3 :Endpoint;
  failure @4 :Failure;
  className @5 :Text;
  infeasible @6 :Bool;      # pending, and no node of the cluster could ever hold it
  durable @7 :Bool;         # calls are numbered, and sent again until they are answered
}

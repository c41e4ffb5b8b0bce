@0x99204376d8449f44;
# The call plane: each link frame is one flat message with this root.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("troupe::wire");

struct Hop {
  # One blocked caller: the actor, and the call it waits for.
  actor @0 :UInt64;
  call @1 :UInt64;
}

struct CallNumber {
  # Of a call to a durable actor: it may be sent again, and runs once.
  caller @0 :UInt64;        # process id << 8 | lane
  sequence @1 :UInt64;      # grows with each call of the caller
  floor @2 :UInt64;         # the caller has its answers to all its calls to this actor below
}

struct Frame {
  id @0 :UInt64;            # the caller's number of the call, unique on its link
  union {
    call :group {
      actor @1 :UInt64;
      incarnation @2 :UInt32;
      method @3 :UInt16;    # ordinal in the class's table
      oneWay @4 :Bool;
      deadline @5 :UInt32;  # milliseconds left, 0: none
      credit @6 :UInt32;    # items a streaming method may send ahead
      trace @7 :UInt64;
      args @8 :Data;
      chain @9 :List(Hop);  # callers that may be waiting for this call, outermost first
      shares @17 :Bool;     # the caller reads the object store of the callee's node: big results may lie there
    }
    value @10 :Data;        # reply: the encoded result; ends a stream
    failure @11 :Common.Failure;  # reply: the call failed
    item @12 :Data;         # next value of a stream
    credit @13 :UInt32;     # the consumer takes that many more items
    cancel @14 :Void;       # the caller is no longer interested
    gone @15 :Common.Failure;     # reply: that incarnation does not live here (any more); the call did not run
    spent @20 :UInt32;      # that slot of the object store was lent with a message, and is not read any more
  }
  number @16 :CallNumber;   # of a call to a durable actor, else null
  refs @18 :Bool;           # args, value or item end with references (runtime/objects/travel.h)
  outside @19 :Bool;        # and what comes before them lies in the object that the first one names
}

struct LinkHello {
  # First message of a caller after it has proved that it knows the token.
  protocol @0 :UInt32;
  fingerprint @1 :UInt64;   # of the executable; both sides must be equal
  job @2 :UInt64;
  caller @3 :UInt64;        # process ids
  callee @4 :UInt64;
  shared @5 :Bool;          # rings in shared memory follow as file descriptors
  lane @6 :UInt16;          # which lane of the callee
}

struct LinkWelcome {
  accepted @0 :Bool;
  failure @1 :Common.Failure;
}

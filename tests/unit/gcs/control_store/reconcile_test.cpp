// Transcript of a head that restarts and meets what lived on.
#include <gtest/gtest.h>

#include "disk.h"
#include "script.h"

namespace troupe::gcs {
namespace {

// The head restarts: the node that lived on is told again what it should host, and to end what it should not.
TEST(ControlStoreTranscript, ARestartedHeadReconciles) {
  ControlStore first;
  Disk disk;
  Actions out;
  RequestId request = 0;
  for (const char* line : {"join n1 cpu=4 pid=7", "join n2 cpu=4 pid=8", "open_job j",
                           "spawn 1: 1.1 cpu=1 restarts=1; 1.2 cpu=1; 1.3 cpu=1 name=x; 1.4 cpu=9",
                           "alive 1 1.1#1 2", "kill 1.3"}) {
    out.clear();
    first.apply(script::parse(line, ++request), 0, out);
    first.begin_turn(request + 1);
    disk.write(first, out);
  }
  ControlStore second;
  Actions restored;
  second.restore(disk.snapshot(), 1'000, restored);
  EXPECT_EQ(second.check(), "");
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_NE(print(restored[0]).find("1.4#0 pending infeasible"), std::string::npos);
  EXPECT_EQ(second.wake_at(), Time{31'000});
  std::string back = R"(> join n1 cpu=4 pid=7
  reply 1 node 1 n1
  start_job node=1 job=1
  destroy 1.3#1 node=1
  place 1.1#1 node=1 process=2
> alive 1 1.1#1 2
  notify 1 1.1#1 alive at 2
> find x
  reply 3 error(not found: no actor is named x)
> destroyed 1 1.3#1
  persist actors 1.3
> open_job k
  persist counters 1
  persist counters 2
  persist jobs 1001
  reply 5 job 1001 process 1001
> at 40000
> tick
  persist nodes 2
  gone node=2
  persist actors 1.2
  notify 1 1.2#1 dead error(actor died: node n2 was lost: it did not come back after the head's restart)
  persist jobs 1
  end_job node=1 job=1
  persist actors 1.1
  persist actors 1.4
)";
  EXPECT_EQ(script::run(second, back), back);
}

}  // namespace
}  // namespace troupe::gcs

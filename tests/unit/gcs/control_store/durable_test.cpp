// Transcripts of durable actors: those with files on a node come back there, and what was alive is
// remembered.
#include <gtest/gtest.h>

#include "disk.h"
#include "script.h"

namespace troupe::gcs {
namespace {

TEST(ControlStoreTranscript, ADurableActorComesBackToItsFiles) {
  std::string text = R"(> join n1 cpu=4
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 2 job 1 process 1
> spawn 1: 1.1 durable restarts=-1
  persist actors 1.1
  reply 3 spawned 1.1
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
> join n2 cpu=64
  persist nodes 2
  reply 4 node 2 n2
> alive 1 1.1#1 2
  persist actors 1.1
  notify 1 1.1#1 alive at 2
> process_ended 1 2
  persist actors 1.1
  notify 1 1.1#1 restarting error(actor died: signal 9)
  place 1.1#2 node=1 process=3
> alive 1 1.1#2 3
  notify 1 1.1#2 alive at 3
)";
  EXPECT_EQ(script::run(text), text);
}

TEST(ControlStoreTranscript, ADurableActorsHomeSurvivesTheHead) {
  ControlStore first;
  Disk disk;
  Actions out;
  RequestId request = 0;
  for (const char* line : {"join n1 cpu=4", "open_job j", "spawn 1: 1.1 durable detached restarts=-1",
                           "join n2 cpu=64", "alive 1 1.1#1 2", "process_ended 1 2", "alive 1 1.1#2 3"}) {
    out.clear();
    first.apply(script::parse(line, ++request), 0, out);
    first.begin_turn(request + 1);
    disk.write(first, out);
  }
  ControlStore second;
  Actions restored;
  second.restore(disk.snapshot(), 1'000, restored);
  const ActorRecord* actor = second.actor(parse_actor_id("1.1"));
  ASSERT_NE(actor, nullptr);
  EXPECT_EQ(actor->home, "n1");
  EXPECT_TRUE(actor->served);
}

}  // namespace
}  // namespace troupe::gcs

// Transcripts of the control store: "> " is an event, the lines below it are what the store wants done.
#include <gtest/gtest.h>

#include "script.h"

namespace troupe::gcs {
namespace {

// Compared as a whole; a difference shows as a diff of lines.
void expect_transcript(const std::string& text) { EXPECT_EQ(script::run(text), text); }

TEST(ControlStoreTranscript, ALightActorLivesAndDies) {
  expect_transcript(R"(> join n1 cpu=2
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> open_job train
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 2 job 1 process 1
> spawn 1: 1.1 light cpu=1; 1.2 light
  persist actors 1.1
  persist actors 1.2
  reply 3 spawned 1.1 1.2
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
  place 1.2#1 node=1 process=2
> alive 1 1.1#1 2
  notify 1 1.1#1 alive at 2
> alive 1 1.1#1 2
> resolve 1 1.2
> alive 1 1.2#1 2
  notify 1 1.2#1 alive at 2
  reply 6 1.2#1 alive at 2
> kill 1.1
  destroy 1.1#1 node=1
  persist actors 1.1
  notify 1 1.1#1 dead error(cancelled: it was killed)
  reply 8 done actor 1.1
> destroyed 1 1.1#1
  persist actors 1.1
> process_ended 1 2
  persist actors 1.2
  notify 1 1.2#1 dead error(actor died: signal 9)
> alive 1 1.2#1 2
  destroy 1.2#1 node=1
> resolve 1 1.2
  reply 12 1.2#1 dead error(actor died: signal 9)
)");
}

TEST(ControlStoreTranscript, AnActorRestartsWithBackOffAndLeavesASuspectNode) {
  expect_transcript(R"(> join n1 cpu=2
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> join n2 cpu=2
  persist nodes 2
  reply 2 node 2 n2
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 3 job 1 process 1
> spawn 1: 1.1 cpu=1 restarts=3
  persist actors 1.1
  reply 4 spawned 1.1
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
> alive 1 1.1#1 2
  notify 1 1.1#1 alive at 2
> at 1000
> process_ended 1 2
  persist actors 1.1
  notify 1 1.1#1 restarting error(actor died: signal 9)
  place 1.1#2 node=1 process=3
> process_ended 1 2
> alive 1 1.1#1 2
  destroy 1.1#1 node=1
> alive 1 1.1#2 3
  notify 1 1.1#2 alive at 3
> process_ended 1 3
  persist actors 1.1
  notify 1 1.1#2 restarting error(actor died: signal 9)
> tick
> at 1100
> tick
  persist actors 1.1
  start_job node=2 job=1
  place 1.1#3 node=2 process=4
> failed 2 1.1#3
  destroy 1.1#3 node=2
  persist actors 1.1
  notify 1 1.1#3 restarting error(actor died: threw)
> process_ended 2 4
  persist actors 1.1
> destroyed 2 1.1#3
> at 1300
> tick
  persist actors 1.1
  place 1.1#4 node=1 process=5
> process_ended 1 5
  persist actors 1.1
  notify 1 1.1#4 dead error(actor died: signal 9)
)");
}

TEST(ControlStoreTranscript, RestartsCountWithinTheirWindow) {
  expect_transcript(R"(> join n1 cpu=2
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 2 job 1 process 1
> spawn 1: 1.1 cpu=1 restarts=1 within=60000
  persist actors 1.1
  reply 3 spawned 1.1
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
> alive 1 1.1#1 2
  notify 1 1.1#1 alive at 2
> at 1000
> process_ended 1 2
  persist actors 1.1
  notify 1 1.1#1 restarting error(actor died: signal 9)
  place 1.1#2 node=1 process=3
> alive 1 1.1#2 3
  notify 1 1.1#2 alive at 3
> at 61000
> process_ended 1 3
  persist actors 1.1
  notify 1 1.1#2 restarting error(actor died: signal 9)
  place 1.1#3 node=1 process=4
> alive 1 1.1#3 4
  notify 1 1.1#3 alive at 4
> at 120999
> process_ended 1 4
  persist actors 1.1
  notify 1 1.1#3 dead error(actor died: signal 9)
)");
}

// Nobody waits for the answer, but who keeps the request must let it go.
TEST(ControlStoreTranscript, QuestionsOfASessionThatEndedAreAnswered) {
  expect_transcript(R"(> join n1 cpu=1
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 2 job 1 process 1
> resolve 1 1.7
> session_closed 1
  reply 3 error(cancelled: its session has ended)
)");
}

TEST(ControlStoreTranscript, ANameIsOneRegister) {
  expect_transcript(R"(> join n1 cpu=4
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 2 job 1 process 1
> spawn 1: 1.1 name=store class=A
  persist actors 1.1
  reply 3 spawned 1.1
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
> spawn 1: 1.2 name=store class=A
  reply 4 spawned 1.2 error(already exists: the name store is taken by actor 1.1 of class A)
> spawn 1: 1.3 name=store class=A get_or_create
  reply 5 spawned 1.1
> spawn 1: 1.1 name=store class=A
  reply 6 spawned 1.1
> spawn 1: 1.1 name=other class=A
  reply 7 spawned 1.1 error(already exists: actor id 1.1 is taken by another actor)
> find store
  reply 8 1.1#1 starting
> kill 1.1
  destroy 1.1#1 node=1
  persist actors 1.1
  notify 1 1.1#1 dead error(cancelled: it was killed)
  reply 9 done actor 1.1
> find store
  reply 10 error(not found: no actor is named store)
> spawn 1: 1.4 name=store class=B
  persist actors 1.4
  reply 11 spawned 1.4
  place 1.4#1 node=1 process=3
> spawn 1: 2.1
  reply 12 spawned 2.1 error(invalid argument: actor id 2.1 is not in the block of process 1)
> spawn 1: 1.5 gpu=1.5
  reply 13 spawned 1.5 error(invalid argument: resource gpu: ask for a part of one GPU (less than 1) or for whole GPUs)
)");
}

TEST(ControlStoreTranscript, OwnersTakeTheirActorsAlongAndDetachedOnesStay) {
  expect_transcript(R"(> join n1 cpu=8
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 2 job 1 process 1
> spawn 1: 1.1 light; 1.2 detached
  persist actors 1.1
  persist actors 1.2
  reply 3 spawned 1.1 1.2
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
  place 1.2#1 node=1 process=3
> alive 1 1.1#1 2
  notify 1 1.1#1 alive at 2
> spawn 2: 2.1 owner=1.1; 2.2 owner=1.1 detached; 2.3
  persist actors 2.1
  persist actors 2.2
  persist actors 2.3
  reply 5 spawned 2.1 2.2 2.3
  place 2.1#1 node=1 process=4
  place 2.2#1 node=1 process=5
  place 2.3#1 node=1 process=6
> alive 1 2.1#1 4
  notify 2 2.1#1 alive at 4
> spawn 4: 4.1 owner=2.1
  persist actors 4.1
  reply 7 spawned 4.1
  place 4.1#1 node=1 process=7
> failed 1 1.1#1
  persist actors 1.1
  notify 1 1.1#1 dead error(actor died: threw)
  destroy 2.1#1 node=1
  persist actors 2.1
  notify 2 2.1#1 dead error(cancelled: its owner 1.1 ended)
  destroy 4.1#1 node=1
  persist actors 4.1
  notify 4 4.1#1 dead error(cancelled: its owner 2.1 ended)
> spawn 2: 2.4 owner=1.1
  reply 9 spawned 2.4 error(cancelled: its owner 1.1 has ended)
> driver_gone 1
  persist jobs 1
  destroy 2.3#1 node=1
  persist actors 2.3
  notify 2 2.3#1 dead error(cancelled: its job ended: its driver ended)
> kill 2.2
  destroy 2.2#1 node=1
  persist actors 2.2
  notify 2 2.2#1 dead error(cancelled: it was killed)
  reply 11 done actor 2.2
> destroyed 1 2.2#1
  persist actors 2.2
> destroyed 1 2.3#1
  persist actors 2.3
> destroyed 1 2.1#1
  persist actors 2.1
> destroyed 1 4.1#1
  persist actors 4.1
> kill 1.2
  destroy 1.2#1 node=1
  persist actors 1.2
  reply 16 done actor 1.2
> destroyed 1 1.2#1
  persist actors 1.2
  end_job node=1 job=1
> job_ended_on 1 1
)");
}

TEST(ControlStoreTranscript, InfeasibleIsToldAndFractionsNeverMeetWholeGpus) {
  expect_transcript(R"(> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 1 job 1 process 1
> spawn 1: 1.1 gpu=1
  persist actors 1.1
  reply 2 spawned 1.1
> resolve 1 1.1
> join n1 cpu=1
  persist counters 0
  persist nodes 1
  reply 4 node 1 n1
  notify 1 1.1#0 pending infeasible error(infeasible: no node of the cluster could ever hold gpu 1)
  reply 3 1.1#0 pending infeasible error(infeasible: no node of the cluster could ever hold gpu 1)
> spawn 1: 1.2 light cpu=1
  persist actors 1.2
  reply 5 spawned 1.2
  start_job node=1 job=1
  place 1.2#1 node=1 process=2
> join n2 gpu=2
  persist nodes 2
  reply 6 node 2 n2
  persist actors 1.1
  start_job node=2 job=1
  place 1.1#1 node=2 process=3 gpus=0
> alive 2 1.1#1 2
  notify 1 1.1#1 alive at 2
> spawn 1: 1.3 gpu=0.5; 1.4 gpu=0.5; 1.5 gpu=1; 1.6 light
  persist actors 1.3
  persist actors 1.4
  persist actors 1.5
  persist actors 1.6
  reply 8 spawned 1.3 1.4 1.5 1.6
  place 1.3#1 node=2 process=4 gpus=1
  place 1.4#1 node=2 process=5 gpus=1
  place 1.6#1 node=1 process=2
> kill 1.1
  destroy 1.1#1 node=2
  persist actors 1.1
  notify 1 1.1#1 dead error(cancelled: it was killed)
  reply 9 done actor 1.1
> destroyed 2 1.1#1
  persist actors 1.1
  persist actors 1.5
  place 1.5#1 node=2 process=6 gpus=0
)");
}

TEST(ControlStoreTranscript, AnOldIncarnationIsFenced) {
  expect_transcript(R"(> join n1 cpu=1
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 2 job 1 process 1
> spawn 1: 1.1 cpu=1 restarts=-1
  persist actors 1.1
  reply 3 spawned 1.1
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
> alive 1 1.1#1 2
  notify 1 1.1#1 alive at 2
> lost 1
  persist nodes 1
  gone node=1
  persist actors 1.1
  notify 1 1.1#1 restarting error(actor died: node n1 was lost: connection ended)
> lost 1
> join n2 cpu=1
  persist nodes 2
  reply 7 node 2 n2
  persist actors 1.1
  start_job node=2 job=1
  place 1.1#2 node=2 process=3
> alive 1 1.1#1 2
> alive 2 1.1#1 2
  destroy 1.1#1 node=2
> failed 1 1.1#1
> alive 2 1.1#2 3
  notify 1 1.1#2 alive at 3
> destroyed 1 1.1#1
> kill 1.1 restart
  destroy 1.1#2 node=2
  persist actors 1.1
  notify 1 1.1#2 restarting error(cancelled: it was killed)
  reply 13 done actor 1.1
> destroyed 2 1.1#2
  persist actors 1.1
> end_job 1
  persist jobs 1
  end_job node=2 job=1
  reply 15 done job 1
  persist actors 1.1
  notify 1 1.1#2 dead error(cancelled: it was killed)
> job_ended_on 2 1
> remove n2
  shutdown node=2
  persist nodes 2
  gone node=2
  reply 17 done node n2
)");
}

TEST(ControlStoreTranscript, AJobEndsWhole) {
  expect_transcript(R"(> join n1 cpu=8
  persist counters 0
  persist nodes 1
  reply 1 node 1 n1
> join n2 cpu=8
  persist nodes 2
  reply 2 node 2 n2
> open_job j
  persist counters 1
  persist counters 2
  persist jobs 1
  reply 3 job 1 process 1
> spawn 1: 1.1 light; 1.2 light; 1.3
  persist actors 1.1
  persist actors 1.2
  persist actors 1.3
  reply 4 spawned 1.1 1.2 1.3
  start_job node=1 job=1
  place 1.1#1 node=1 process=2
  start_job node=2 job=1
  place 1.2#1 node=2 process=3
  place 1.3#1 node=1 process=4
> driver_gone 1
  persist jobs 1
  end_job node=1 job=1
  end_job node=2 job=1
  persist actors 1.1
  persist actors 1.2
  persist actors 1.3
> driver_gone 1
> spawn 1: 1.4
  reply 7 spawned 1.4 error(cancelled: the session's process has ended)
> job_ended_on 1 1
  persist actors 1.1
  persist actors 1.3
> process_ended 2 3
  persist actors 1.2
> job_ended_on 2 1
> resolve 1 1.9
> session 1 2
  reply 12 error(not found: process 2 is not one of this node's workers)
)");
}

}  // namespace
}  // namespace troupe::gcs

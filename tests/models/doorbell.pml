/* The sleep-and-wake protocol of a ring link (core/link/ring.h): two lanes, a ring each way, one doorbell a lane.
 *
 * Each lane publishes FRAMES frames, single or double units, into a ring of CAP units, and reads the other's, unit by
 * unit. A lane that can neither read nor write sleeps until its doorbell rings. One step of the model is one
 * sequentially consistent operation of the code; an exchange is one step too.
 *
 * Claim: every published frame is read, that is, both lanes end. A lost wake-up shows as a deadlock (an invalid end
 * state) and as a violation of `all_read`. Variants that must fail:
 *   -DNO_SECOND_LOOK_DATA    the reader sleeps without looking at the ring again after it has set its flag
 *   -DNO_SECOND_LOOK_SPACE   the writer does so, when it waits for space
 *   -DFLAG_BEFORE_INDEX      who publishes looks at the flag before it stores its index, as a processor may do that
 *                            is not told to keep the order
 */
#define CAP 4
#define HALF 2
#define FRAMES 3

byte head[2];      /* head[i]: units that lane i has published */
byte tail[2];      /* tail[i]: units of lane i's ring that the other lane has given back */
bool sleeps[2];    /* sleeps[i]: the reader of lane i's ring sleeps */
bool waits[2];     /* waits[i]: the writer of lane i's ring wants space */
bool bell[2];      /* bell[i]: lane i's doorbell has been rung */
byte total[2];     /* units that lane i has published at last */
bool sent[2], ended[2];

inline publish(me, units) {
#ifdef FLAG_BEFORE_INDEX
  seen = sleeps[me];
  head[me] = head[me] + units;
#else
  head[me] = head[me] + units;
  seen = sleeps[me];
#endif
  if
  :: seen -> atomic { seen = sleeps[me]; sleeps[me] = false }
     if
     :: seen -> bell[1 - me] = true
     :: else
     fi
  :: else
  fi
}

inline release(me) {
#ifdef FLAG_BEFORE_INDEX
  seen = waits[1 - me];
  tail[1 - me] = tail[1 - me] + 1;
#else
  tail[1 - me] = tail[1 - me] + 1;
  if
  :: known - tail[1 - me] <= HALF -> seen = waits[1 - me]
  :: else -> seen = false
  fi;
#endif
  if
  :: seen -> atomic { seen = waits[1 - me]; waits[1 - me] = false }
     if
     :: seen -> bell[1 - me] = true
     :: else
     fi
  :: else
  fi
}

proctype lane(byte me) {
  byte frames = 0;
  byte next = 0;   /* units of the frame to publish next, 0 when none was chosen */
  byte known = 0;  /* the other's head when last looked at */
  bool seen;
  do
  :: /* one turn: read what there is, write what fits, else sleep */
     if
     :: known != tail[1 - me] -> release(me)
     :: known == tail[1 - me] && head[1 - me] != known -> known = head[1 - me]
     :: next == 0 && frames < FRAMES -> next = 1
     :: next == 0 && frames < FRAMES -> next = 2
     :: next != 0 && CAP - (head[me] - tail[me]) >= next ->
        publish(me, next);
        frames++;
        next = 0;
        if
        :: frames == FRAMES -> atomic { total[me] = head[me]; sent[me] = true }
        :: else
        fi
     :: frames == FRAMES && sent[1 - me] && tail[1 - me] == total[1 - me] -> break
     :: else ->
        /* prepare_sleep: space first, then data */
        if
        :: next != 0 ->
           waits[me] = true;
#ifndef NO_SECOND_LOOK_SPACE
           if
           :: CAP - (head[me] - tail[me]) >= next -> waits[me] = false; goto again
           :: else
           fi
#endif
        :: else
        fi;
        sleeps[1 - me] = true;
#ifndef NO_SECOND_LOOK_DATA
        if
        :: head[1 - me] != known -> sleeps[1 - me] = false; waits[me] = false; goto again
        :: else
        fi;
#endif
        /* A lane whose peer has published all and which has read all would end, not sleep. */
        if
        :: atomic { bell[me] -> bell[me] = false }
        :: frames == FRAMES && sent[1 - me] && tail[1 - me] == total[1 - me]
        fi;
        sleeps[1 - me] = false;
        waits[me] = false
     fi;
again: skip
  od;
  ended[me] = true
}

init { atomic { run lane(0); run lane(1) } }

ltl all_read { <> (ended[0] && ended[1]) }

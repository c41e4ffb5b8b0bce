// All of the actor API.
#pragma once

#include "troupe/actor.h"
#include "troupe/context.h"
#include "troupe/device.h"
#include "troupe/errors.h"
#include "troupe/future.h"
#include "troupe/group.h"
#include "troupe/handle.h"
#include "troupe/object.h"
#include "troupe/options.h"
#include "troupe/runtime.h"
#include "troupe/stream.h"
#include "troupe/supervision.h"
#include "troupe/task.h"
#include "troupe/tensor.h"
#include "troupe/when.h"

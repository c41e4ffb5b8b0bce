// Runs programs of the build and watches what they leave behind. Each scene has a folder of its own, and a
// mark in the environment by which every process it started, at any remove, is found.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::test {

struct Outcome {
  int status = -1;  // exit status, or 128 + signal
  std::string output;
};

class Scene {
 public:
  Scene();
  ~Scene();

  const std::string& folder() const { return folder_; }
  void set(const std::string& name, const std::string& value) { environment_[name] = value; }

  // Runs to the end (at most `seconds`); standard output and error together.
  Outcome run(std::vector<std::string> arguments, int seconds = 90);

  // A process in the background.
  class Process {
   public:
    pid_t pid = -1;
    int input = -1, output = -1;
    std::string seen;  // of its output
    // Reads until `text` appears; false at the end of the output or after `seconds`.
    bool wait_for(const std::string& text, int seconds = 60);
    void write(const std::string& text);
    Outcome finish(int seconds = 60);
  };
  Process start(std::vector<std::string> arguments);

  // The processes that carry this scene's mark.
  std::vector<pid_t> processes() const;
  // True as soon as there are none, false after `seconds`.
  bool all_gone(int seconds = 30) const;
  std::string describe_processes() const;

 private:
  std::string folder_;
  std::map<std::string, std::string> environment_;
};

std::string bin(const std::string& name);  // a program of the build
// Stops the process and waits until all its threads have: on a busy machine some run on for a while.
void stop_process(pid_t pid);
bool eventually(const std::function<bool()>& condition, int seconds = 30);

}  // namespace troupe::test

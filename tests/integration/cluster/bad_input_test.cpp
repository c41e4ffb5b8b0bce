// Each wrong input gives one clear error that says what to do, a non-zero exit, and leaves nothing running.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support.h"

namespace troupe::test {
namespace {

void expect_refused(Scene& scene, const Outcome& outcome, int status, const std::string& says) {
  EXPECT_EQ(outcome.status, status) << outcome.output;
  EXPECT_NE(outcome.output.find(says), std::string::npos)
      << "wanted: " << says << "\ngot: " << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

TEST(BadInput, UnknownFlag) {
  Scene scene;
  expect_refused(scene, scene.run({bin("troupe"), "head", "--colour", "red"}), 2, "--colour");
  expect_refused(scene, scene.run({bin("troupe"), "heda"}), 2, "head");
}

TEST(BadInput, ImpossibleResources) {
  Scene scene;
  expect_refused(scene, scene.run({bin("troupe"), "run", "--cpus", "-3", bin("hello")}), 2, "-3");
  expect_refused(scene, scene.run({bin("troupe"), "node", "--head", "127.0.0.1:1", "--resource", "tpu"}), 2,
                 "tpu");
}

TEST(BadInput, PortInUse) {
  Scene scene;
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  std::string port = std::to_string(ntohs(at.sin_port));
  expect_refused(scene, scene.run({bin("troupe"), "head", "--port", port}), 1, "choose another port");
  ::close(fd);
}

TEST(BadInput, RedisMissing) {
  Scene scene;
  scene.set("TROUPE_REDIS_SERVER", scene.folder() + "/redis-server");
  expect_refused(scene, scene.run({bin("troupe"), "head"}), 1, "apt-get install redis-server");
}

TEST(BadInput, RedisRefusing) {
  Scene scene;
  expect_refused(scene,
                 scene.run({bin("troupe"), "head", "--redis", "unix://" + scene.folder() + "/none.sock"}), 1,
                 "edis");
  expect_refused(scene, scene.run({bin("troupe"), "head", "--redis", "http://x"}), 2, "redis://");
}

TEST(BadInput, WrongToken) {
  Scene scene;
  auto head = scene.start({bin("troupe"), "head"});
  ASSERT_TRUE(head.wait_for("listening on")) << head.seen;
  scene.set("TROUPE_TOKEN", std::string(64, 'a'));
  auto status = scene.run({bin("troupe"), "status"});
  EXPECT_EQ(status.status, 1) << status.output;
  EXPECT_NE(status.output.find("token"), std::string::npos) << status.output;
  EXPECT_TRUE(head.wait_for("refused a connection")) << "the head says so too: " << head.seen;
}

TEST(BadInput, NoCluster) {
  Scene scene;
  expect_refused(scene, scene.run({bin("troupe"), "status"}), 1, "troupe head");
  expect_refused(scene, scene.run({bin("probe"), "api"}), 1, "troupe run");
}

TEST(BadInput, ProgramMissing) {
  Scene scene;
  auto outcome = scene.run({bin("troupe"), "run", scene.folder() + "/nothing"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.output.find("nothing"), std::string::npos) << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

TEST(BadInput, ExecutableThatDiffersFromTheDrivers) {
  Scene scene;
  std::string program = scene.folder() + "/program";
  std::filesystem::copy_file(bin("probe"), program);
  auto run = scene.start({bin("troupe"), "run", program, "wait_then_spawn"});
  ASSERT_TRUE(run.wait_for("probe: waiting")) << run.seen;
  // The running driver keeps its file; the name leads to another program now.
  std::filesystem::remove(program);
  std::filesystem::copy_file(bin("hello"), program);
  run.write("\n");
  auto outcome = run.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
}

TEST(BadInput, FullDisk) {
  if (::geteuid() != 0) GTEST_SKIP() << "a small file system can only be mounted by root";
  Scene scene;
  std::string disk = scene.folder() + "/disk";
  ::mkdir(disk.c_str(), 0700);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "mounting is not allowed here";
  std::system(("head -c 60000 /dev/zero > " + disk + "/ballast").c_str());
  auto outcome = scene.run({bin("troupe"), "head", "--state", disk + "/state"});
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("space"), std::string::npos) << outcome.output;
  EXPECT_TRUE(scene.all_gone()) << scene.describe_processes();
  ::umount2(disk.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace troupe::test

#include "core/base/throws_error.h"

namespace troupe {

std::string exception_text() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (const std::string& text) {
    return text;
  } catch (const char* text) {
    return text;
  } catch (...) {
    return "an exception of unknown type";
  }
}

Error codec_error(ErrorKind otherwise, const char* what) {
  try {
    throw;
  } catch (const ThrowsError& e) {
    return e.error();
  } catch (...) {
    return Error(otherwise, std::string(what) + ": " + exception_text());
  }
}

}  // namespace troupe

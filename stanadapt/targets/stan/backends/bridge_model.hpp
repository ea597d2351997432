// The bridge's representation of a program, and how values and messages are passed.

#ifndef STANADAPT_BRIDGE_MODEL_HPP
#define STANADAPT_BRIDGE_MODEL_HPP

#include <stan/model/model_header.hpp>
#include <stan/io/array_var_context.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/version.hpp>
#if __has_include(<stan/io/json/json_data.hpp>)
#include <stan/io/json/json_data.hpp>
using json_data = stan::json::json_data;
#else
#include <cmdstan/io/json/json_data.hpp>
using json_data = cmdstan::json::json_data;
#endif

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

// defined by stanc's output
stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed,
                                   std::ostream* messages);

using Model = stan::model::model_base;
using Rng = decltype(stan::services::util::create_rng(0U, 0U));
using Vector = Eigen::VectorXd;
using Print = void (*)(const char*, std::size_t);

struct bs_rng {
  Rng generator;
};

struct bs_model {
  std::unique_ptr<Model> program;
  std::string name, info, unconstrained_names;
  // indexed by 2 * include_tp + include_gq
  std::array<std::string, 4> names;
  std::array<int, 4> sizes;
  int dim;
};

namespace {

std::atomic<Print> print_callback{nullptr};

// The memory that a thread writes to during evaluations, allocated once rather than per call.
struct Workspace {
  stan::math::ChainableStack tape;
  std::ostringstream messages;
  Vector position, constrained;
  Eigen::Matrix<stan::math::var, Eigen::Dynamic, 1> variables;
};

Workspace& workspace() {
  static thread_local Workspace of_this_thread;
  return of_this_thread;
}

// Forwards what the program printed, even if it threw afterwards.
class Printing {
 public:
  explicit Printing(Workspace& space) : space_(space) {}
  Printing(const Printing&) = delete;
  Printing& operator=(const Printing&) = delete;
  ~Printing() {
    if (space_.messages.tellp() <= 0) return;
    try {
      const std::string text = space_.messages.str();
      space_.messages.str(std::string());
      if (const Print print = print_callback.load()) {
        print(text.data(), text.size());
      } else {
        std::cout << text << std::flush;
      }
    } catch (...) {  // a failure to print must not end the process
    }
    space_.messages.clear();
  }

 private:
  Workspace& space_;
};

void explain(char** error, const char* message) noexcept {
  if (error == nullptr) return;
  const std::size_t size = std::strlen(message) + 1;
  *error = static_cast<char*>(std::malloc(size));
  if (*error != nullptr) std::memcpy(*error, message, size);
}

template <typename Body>
int attempt(char** error, Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const std::exception& exception) {
    explain(error, exception.what());
  } catch (...) {
    explain(error, "an exception of a type unknown to Stan");
  }
  return -1;
}

// Reads from memory: a string stream would copy the data, which may be hundreds of megabytes.
class Memory : public std::streambuf {
 public:
  explicit Memory(const char* text) {
    char* begin = const_cast<char*>(text);
    setg(begin, begin, begin + std::strlen(text));
  }
};

bool is_file_name(const char* text) {
  const std::size_t length = std::strlen(text);
  return length > 5 && std::strcmp(text + length - 5, ".json") == 0;
}

// Values from JSON text or from a .json file; none if `text` is empty.
std::unique_ptr<stan::io::var_context> read(const char* text) {
  if (text == nullptr || *text == '\0')
    return std::unique_ptr<stan::io::var_context>(new stan::io::empty_var_context());
  if (is_file_name(text)) {
    std::ifstream file(text);
    if (!file.good()) throw std::runtime_error(std::string("cannot read the file ") + text);
    return std::unique_ptr<stan::io::var_context>(new json_data(file));
  }
  Memory memory(text);
  std::istream stream(&memory);
  return std::unique_ptr<stan::io::var_context>(new json_data(stream));
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += ',';
    text += part;
  }
  return text;
}

#define STANADAPT_TEXT_(x) #x
#define STANADAPT_TEXT(x) STANADAPT_TEXT_(x)

std::string description(const Model& program) {
  std::string text =
      "BridgeStan version: 2.9.0 (stanadapt's bridge)\n"
      "Stan version: " STANADAPT_TEXT(STAN_MAJOR) "." STANADAPT_TEXT(STAN_MINOR) "." STANADAPT_TEXT(
          STAN_PATCH) "\nStan C++ Defines:\n\tSTAN_THREADS=";
#ifdef STAN_THREADS
  text += "true";
#else
  text += "false";
#endif
  text += "\nStan Compiler Details:\n";
  for (const std::string& line : program.model_compile_info()) text += "\t" + line + "\n";
  return text;
}

// The parameters' names and sizes. Releases before 2.29 list other quantities after them.
// Parameters of size zero are listed here, but not in constrained_param_names.
void declared(const bs_model& model, std::vector<std::string>& names,
              std::vector<std::vector<std::size_t>>& sizes) {
  model.program->get_param_names(names);
  model.program->get_dims(sizes);
  std::size_t kept = 0, total = 0;
  for (; kept < sizes.size(); ++kept) {
    std::size_t size = 1;
    for (std::size_t length : sizes[kept]) size *= length;
    if (total + size > static_cast<std::size_t>(model.sizes[0])) break;
    total += size;
  }
  names.resize(kept);
  sizes.resize(kept);
}

std::string shown(const std::vector<std::size_t>& lengths) {
  std::string text;
  for (std::size_t length : lengths) text += (text.empty() ? "" : ", ") + std::to_string(length);
  return "(" + text + ")";
}

// Before 2.33, code generated by stanc does not check that values exist and are complete, and reads
// beyond the end of memory (stanc3's issue 1315).
void require_shapes(const bs_model& model, const stan::io::var_context& values) {
#if STAN_MAJOR == 2 && STAN_MINOR < 33
  std::vector<std::string> names;
  std::vector<std::vector<std::size_t>> sizes;
  declared(model, names, sizes);
  for (std::size_t k = 0; k < names.size(); ++k) {
    std::size_t size = 1;
    for (std::size_t length : sizes[k]) size *= length;
    if (size == 0) continue;
    if (!values.contains_r(names[k])) {
      throw std::runtime_error("the value of " + names[k] + " is missing");
    } else if (values.dims_r(names[k]) != sizes[k]) {
      throw std::runtime_error(names[k] + " must have shape " + shown(sizes[k]) + ", got " +
                               shown(values.dims_r(names[k])));
    }
  }
#endif
}

void store(const Vector& from, int size, double* to) {
  if (from.size() != size)
    throw std::runtime_error("Stan made " + std::to_string(from.size()) + " values where " +
                             std::to_string(size) + " were expected");
  std::memcpy(to, from.data(), sizeof(double) * static_cast<std::size_t>(size));
}

// if the model can read flat constrained values itself
template <typename M>
auto unconstrain(const M& program, const bs_model&, const Vector& theta, Vector& position,
                 std::ostream* messages, int)
    -> decltype(program.unconstrain_array(theta, position, messages)) {
  program.unconstrain_array(theta, position, messages);
}

// if it cannot: as initial values, by name
template <typename M>
void unconstrain(const M& program, const bs_model& model, const Vector& theta, Vector& position,
                 std::ostream* messages, long) {
  std::vector<std::string> names;
  std::vector<std::vector<std::size_t>> sizes;
  declared(model, names, sizes);
  stan::io::array_var_context context(names, theta, sizes);
  program.transform_inits(context, position, messages);
}

}  // namespace

#endif

// BridgeStan's C interface (version 2.9) to the model class that an installed CmdStan generates.
//
// For CmdStan 2.27 and newer. Differences between releases (the random generator, the location of
// the JSON reader, unconstrain_array) are detected by their presence, not by version number, so
// that future releases are handled correctly.
//
// No exception leaves a function. An error is reported as -1 and, if the caller passed a pointer
// for it, as Stan's own message, to be freed with bs_free_error_msg.

#include "bridge_density.hpp"

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {

void names_and_sizes(bs_model& model) {
  std::vector<std::string> list;
  for (int k = 0; k < 4; ++k) {
    list.clear();
    model.program->constrained_param_names(list, (k & 2) != 0, (k & 1) != 0);
    model.names[k] = joined(list);
    model.sizes[k] = static_cast<int>(list.size());
  }
  list.clear();
  model.program->unconstrained_param_names(list, false, false);
  model.unconstrained_names = joined(list);
  model.dim = static_cast<int>(model.program->num_params_r());
  model.name = model.program->model_name();
  model.info = description(*model.program);
}

int flags(bool include_tp, bool include_gq) { return 2 * include_tp + include_gq; }

int absent(char** error) {
  explain(error,
          "stanadapt's bridge has neither Hessians nor random initial values: use "
          "backend='bridgestan'");
  return -1;
}

}  // namespace

EXPORT const int bs_major_version = 2;
EXPORT const int bs_minor_version = 9;
EXPORT const int bs_patch_version = 0;

EXPORT bs_model* bs_model_construct(const char* data, unsigned int seed, char** error) {
  bs_model* made = nullptr;
  attempt(error, [&] {
    Workspace& space = workspace();
    Printing printing(space);
    const std::unique_ptr<stan::io::var_context> context = read(data);
    std::unique_ptr<bs_model> model(new bs_model());
    model->program.reset(&new_model(*context, seed, &space.messages));
    names_and_sizes(*model);
    made = model.release();
  });
  return made;
}

EXPORT void bs_model_destruct(bs_model* model) { delete model; }

EXPORT void bs_free_error_msg(char* error) { std::free(error); }

EXPORT int bs_set_print_callback(Print callback, char**) {
  print_callback.store(callback);
  return 0;
}

EXPORT const char* bs_name(const bs_model* model) { return model->name.c_str(); }

EXPORT const char* bs_model_info(const bs_model* model) { return model->info.c_str(); }

EXPORT const char* bs_param_names(const bs_model* model, bool include_tp, bool include_gq) {
  return model->names[flags(include_tp, include_gq)].c_str();
}

EXPORT const char* bs_param_unc_names(const bs_model* model) {
  return model->unconstrained_names.c_str();
}

EXPORT int bs_param_num(const bs_model* model, bool include_tp, bool include_gq) {
  return model->sizes[flags(include_tp, include_gq)];
}

EXPORT int bs_param_unc_num(const bs_model* model) { return model->dim; }

EXPORT int bs_param_constrain(const bs_model* model, bool include_tp, bool include_gq,
                              const double* theta_unc, double* theta, bs_rng* rng, char** error) {
  return attempt(error, [&] {
    if (include_gq && rng == nullptr)
      throw std::invalid_argument("generated quantities need a random generator");
    Workspace& space = workspace();
    Printing printing(space);
    space.position = Eigen::Map<const Vector>(theta_unc, model->dim);
    std::unique_ptr<bs_rng> unused;
    if (rng == nullptr) {
      unused.reset(new bs_rng{stan::services::util::create_rng(0U, 0U)});
      rng = unused.get();
    }
    model->program->write_array(rng->generator, space.position, space.constrained, include_tp,
                                include_gq, &space.messages);
    store(space.constrained, model->sizes[flags(include_tp, include_gq)], theta);
  });
}

EXPORT int bs_param_unconstrain(const bs_model* model, const double* theta, double* theta_unc,
                                char** error) {
  return attempt(error, [&] {
    Workspace& space = workspace();
    Printing printing(space);
    const Vector given = Eigen::Map<const Vector>(theta, model->sizes[0]);
    unconstrain(*model->program, *model, given, space.position, &space.messages, 0);
    store(space.position, model->dim, theta_unc);
  });
}

EXPORT int bs_param_unconstrain_json(const bs_model* model, const char* json, double* theta_unc,
                                     char** error) {
  return attempt(error, [&] {
    Workspace& space = workspace();
    Printing printing(space);
    const std::unique_ptr<stan::io::var_context> context = read(json);
    require_shapes(*model, *context);
    model->program->transform_inits(*context, space.position, &space.messages);
    store(space.position, model->dim, theta_unc);
  });
}

EXPORT int bs_log_density(const bs_model* model, bool propto, bool jacobian, const double* theta,
                          double* density, char** error) {
  return attempt(error, [&] { *density = value(*model, propto, jacobian, theta); });
}

EXPORT int bs_log_density_gradient(const bs_model* model, bool propto, bool jacobian,
                                   const double* theta, double* density, double* gradient,
                                   char** error) {
  return attempt(error, [&] {
    *density = value_and_gradient(*model, propto, jacobian, theta, gradient);
  });
}

// BridgeStan's Python package looks these functions up, and stanadapt calls none of them.

EXPORT int bs_param_initialize(const bs_model*, const char*, bs_rng*, double, int, bool, double*,
                               char** error) {
  return absent(error);
}

EXPORT int bs_log_density_hessian(const bs_model*, bool, bool, const double*, double*, double*,
                                  double*, char** error) {
  return absent(error);
}

EXPORT int bs_log_density_hessian_vector_product(const bs_model*, bool, bool, const double*,
                                                 const double*, double*, double*, char** error) {
  return absent(error);
}

EXPORT bs_rng* bs_rng_construct(unsigned int seed, char** error) {
  bs_rng* made = nullptr;
  attempt(error, [&] { made = new bs_rng{stan::services::util::create_rng(seed, 0)}; });
  return made;
}

EXPORT void bs_rng_destruct(bs_rng* rng) { delete rng; }

// Log density and gradient.

#ifndef STANADAPT_BRIDGE_DENSITY_HPP
#define STANADAPT_BRIDGE_DENSITY_HPP

#include "bridge_model.hpp"

namespace {

// With propto and plain doubles Stan would drop every term, so propto requires autodiff types.
template <bool propto, bool jacobian>
double value(const Model& program, const double* theta, int dim) {
  Workspace& space = workspace();
  Printing printing(space);
  if (propto) {
    stan::math::nested_rev_autodiff nested;
    space.variables.resize(dim);
    for (int i = 0; i < dim; ++i) space.variables.coeffRef(i) = theta[i];
    return program.log_prob<propto, jacobian>(space.variables, &space.messages).val();
  }
  space.position = Eigen::Map<const Vector>(theta, dim);
  return program.log_prob<propto, jacobian>(space.position, &space.messages);
}

template <bool propto, bool jacobian>
double value_and_gradient(const Model& program, const double* theta, int dim, double* gradient) {
  Workspace& space = workspace();
  Printing printing(space);
  stan::math::nested_rev_autodiff nested;
  space.variables.resize(dim);
  for (int i = 0; i < dim; ++i) space.variables.coeffRef(i) = theta[i];
  stan::math::var density = program.log_prob<propto, jacobian>(space.variables, &space.messages);
  density.grad();
  for (int i = 0; i < dim; ++i) gradient[i] = space.variables.coeffRef(i).adj();
  return density.val();
}

double value(const bs_model& model, bool propto, bool jacobian, const double* theta) {
  const Model& program = *model.program;
  if (propto)
    return jacobian ? value<true, true>(program, theta, model.dim)
                    : value<true, false>(program, theta, model.dim);
  return jacobian ? value<false, true>(program, theta, model.dim)
                  : value<false, false>(program, theta, model.dim);
}

double value_and_gradient(const bs_model& model, bool propto, bool jacobian, const double* theta,
                          double* gradient) {
  const Model& program = *model.program;
  const int dim = model.dim;
  if (propto)
    return jacobian ? value_and_gradient<true, true>(program, theta, dim, gradient)
                    : value_and_gradient<true, false>(program, theta, dim, gradient);
  return jacobian ? value_and_gradient<false, true>(program, theta, dim, gradient)
                  : value_and_gradient<false, false>(program, theta, dim, gradient);
}

}  // namespace

#endif

/* all.h: every kernel. */
#ifndef BACKEND_CUDA_KERNELS_ALL_H
#define BACKEND_CUDA_KERNELS_ALL_H

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/attention_fused_backward.h"
#include "backend/cuda/kernels/attention_rows.h"
#include "backend/cuda/kernels/cholesky.h"
#include "backend/cuda/kernels/clip_search.h"
#include "backend/cuda/kernels/codes.h"
#include "backend/cuda/kernels/convolution.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/inputs.h"
#include "backend/cuda/kernels/loss.h"
#include "backend/cuda/kernels/norm.h"
#include "backend/cuda/kernels/scan.h"
#include "backend/cuda/kernels/xielu.h"

#endif

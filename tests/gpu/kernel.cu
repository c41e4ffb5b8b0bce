// A kernel on a tensor's memory, in a library of its own: nothing else is compiled by nvcc.
__global__ void scale(float* values, float factor, long count) {
  long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < count) values[i] *= factor;
}

// The CUDA error; waits for the kernel.
extern "C" int troupe_scale(float* values, float factor, long count) {
  scale<<<static_cast<unsigned>((count + 255) / 256), 256>>>(values, factor, count);
  cudaError_t error = cudaGetLastError();
  return static_cast<int>(error != cudaSuccess ? error : cudaDeviceSynchronize());
}

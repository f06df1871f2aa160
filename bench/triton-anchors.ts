// Figures of a real Triton 2.51.0 with identity, ONNX Runtime 1.19.2 and Python backends, for whoever has none, or one without those
// backends. Two cores of an AMD EPYC virtual machine, Debian 12, server on one, load on the other; batch 1, one instance, one intra-op
// thread. Absolute figures move with the machine: where a Triton runs beside, they are scaled by what its `add_sub` costs now.

export type AnchorCell = { readonly p50Ms: number; readonly p99Ms: number; readonly cpuUs: number }
type AnchorRow = Readonly<Record<'binary' | 'grpc', Readonly<Record<number, AnchorCell>>>>

const cell = (p50Ms: number, p99Ms: number, cpuUs: number): AnchorCell => ({ p50Ms, p99Ms, cpuUs })

export const tritonAnchors: Readonly<Record<string, AnchorRow>> = {
  identity: {
    binary: { 1: cell(0.2, 0.33, 141), 16: cell(1.22, 4.7, 82), 64: cell(5.7, 13.5, 76) },
    grpc: { 1: cell(0.24, 0.66, 226), 16: cell(1.8, 5.1, 120), 64: cell(8.9, 15.9, 141) },
  },
  simple: {
    binary: { 1: cell(0.25, 0.35, 183), 16: cell(1.2, 3.3, 82), 64: cell(4.8, 21, 93) },
    grpc: { 1: cell(0.25, 0.68, 248), 16: cell(3.1, 6.5, 200), 64: cell(12.9, 22, 210) },
  },
  digits: {
    binary: { 1: cell(0.25, 0.45, 201), 16: cell(1.4, 3.1, 90), 64: cell(5.7, 13, 88) },
    grpc: { 1: cell(0.28, 0.44, 269), 16: cell(3.3, 6.6, 213), 64: cell(14, 21, 217) },
  },
  add_sub: {
    binary: { 1: cell(0.34, 0.52, 305), 16: cell(4.5, 6.4, 285), 64: cell(18.7, 21.5, 287) },
    grpc: { 1: cell(0.33, 0.73, 356), 16: cell(6, 9.1, 378), 64: cell(23, 32, 366) },
  },
}

/** With two instances gRPC costs it 118 to 141 µs with 64 at once, whatever the small model; the least counts. */
export const tritonPairGrpcCpuUs = 118

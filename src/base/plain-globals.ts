/**
 * Node makes these globals getters, and V8 calls the getter at each use, also in optimised code: ten times per small inference. As plain
 * properties they are constants. Only for processes of our own: the globals of another program are not ours to change.
 */
export function plainGlobals(): void {
  for (const name of ['Buffer', 'performance'] as const) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name)
    if (before?.get === undefined || before.configurable !== true) continue
    const { enumerable = false } = before
    Object.defineProperty(globalThis, name, { value: globalThis[name], writable: true, configurable: true, enumerable })
  }
}

/**
 * Stands for every part that a front end asks for, as nothing of it is used before a request comes. What is given stands for
 * itself. Without more, TensorFlow Serving's protocol is off, as it is in a server.
 */
export function anyPart(given: Readonly<Record<string, unknown>> = { tfserving: undefined }): never {
  const part: unknown = new Proxy(() => {}, {
    get: (_, name) => (typeof name === 'string' && name in given ? given[name] : part),
    apply: () => ({}),
  })
  return part as never
}

/** What Triton's core writes before the error of a request: the id of the client, or a stand-in where there is none. */
export const idPrefix = (id: string): string => `[request id: ${id === '' ? '<id_unknown>' : id}] `

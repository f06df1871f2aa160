/** Custom parameters of a request or response. A bigint is an integer, a number a double: the wire tells them apart. */
export type ParameterValue = string | bigint | boolean | number
export type Parameters = ReadonlyMap<string, ParameterValue>

/** What is wrong with a model's name, or null. A name is one folder, never a path. */
export function modelNameProblem(name: string): string | null {
  if (name === '') return 'Model name cannot be empty'
  const isPath = /[\\/\0]/.test(name) || name.startsWith('..') || name === '.'
  return isPath ? `invalid model name '${name}', model name must not contain path traversal characters` : null
}

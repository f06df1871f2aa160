/** Beside config.pbtxt; the first that is there is read. None of them is part of what a model is loaded from. */
export const registryFileNames: readonly string[] = ['galatea.yaml', 'galatea.yml', 'galatea.json']

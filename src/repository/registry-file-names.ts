/** They lie beside config.pbtxt; the first one that exists is read. A model is not loaded from them. */
export const registryFileNames: readonly string[] = ['galatea.yaml', 'galatea.yml', 'galatea.json']

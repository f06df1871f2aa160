/** True: the page came from `galatea fleet`, which has servers and no models of its own. */
export const isControlPlane = document.documentElement.dataset['kind'] === 'fleet'

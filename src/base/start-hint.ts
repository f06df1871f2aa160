/** What to do about a refused connection, which says that nobody listens; '' for other errors. `option` names the address. */
export const startHint = (reason: string, option: string): string =>
  reason.includes('ECONNREFUSED')
    ? `; no server listens there: start one with 'galatea --model-repository <folder>' or 'galatea --examples', or name its address with ${option}`
    : ''

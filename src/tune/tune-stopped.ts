/** The run cannot go on, through no fault of a setting; what was measured stays good. The message says what to do. */
export class TuneStopped extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'TuneStopped'
  }
}

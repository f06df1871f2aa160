/** The run cannot continue, and no setting is the cause. The figures stay valid. The message says what to do. */
export class TuneStopped extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'TuneStopped'
  }
}

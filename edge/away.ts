/** Something that the gate depends on does not answer, or not with anything usable. Its message is for us only. */
export class Away extends Error {
  constructor(what: string, cause?: unknown) {
    super(what, { cause })
    this.name = 'Away'
  }
}

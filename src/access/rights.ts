import { ownText } from '../base/own-text.ts'
import { actions, type Action } from './action.ts'
import { NamePattern } from './name-pattern.ts'

/** `inference@vision-*`: an action, and the models that it is meant for. */
export type Permission = {
  /** `*`: every action. */
  readonly action: Action | '*'
  /** Null: the server and all models. */
  readonly models: NamePattern | null
}

export type PermissionRules = { readonly allow: readonly Permission[]; readonly deny: readonly Permission[] }

/** Clients may name any number of models that do not exist: at this many names all are forgotten. */
const mostKnownModels = 1000
/** Longer names are judged each time. */
const longestKnownModel = 256

const bitOf: ReadonlyMap<Action, number> = new Map(actions.map((action, index) => [action, 1 << index]))
const bit = (action: Action): number => bitOf.get(action) as number

/** What a caller may do. Denials win. */
export class Rights {
  readonly #rules: PermissionRules
  /** Sets of actions as bits, by model. */
  readonly #byModel = new Map<string, number>()
  readonly #onServer: number
  readonly #onSome: number

  constructor(rules: PermissionRules) {
    this.#rules = rules
    this.#onServer = this.#judge((action) => this.#isAllowedOnAll(action))
    this.#onSome = this.#judge((action) => this.#isAllowedOnSome(action))
  }

  /** Whether the caller may do this to this model. HOT: once per inference of a caller with rights. */
  may(action: Action, model: string): boolean {
    return ((this.#byModel.get(model) ?? this.#judgeModel(model)) & bit(action)) !== 0
  }

  /** Whether the caller may do this to the server as a whole, and so to every model. */
  mayAll(action: Action): boolean {
    return (this.#onServer & bit(action)) !== 0
  }

  /** Whether the caller may do this to any model: what a call needs whose answer leaves out what the caller may not see. */
  mayAny(action: Action): boolean {
    return (this.#onSome & bit(action)) !== 0
  }

  /** Whether a rule denies this, for all models or some. */
  denies(action: Action): boolean {
    return this.#rules.deny.some((one) => names(one, action))
  }

  #judgeModel(model: string): number {
    const { allow, deny } = this.#rules
    const isMeant = ({ models }: Permission): boolean => models === null || models.matches(model)
    const bits = this.#judge((action) => {
      const concerns = (permission: Permission): boolean => names(permission, action) && isMeant(permission)
      return allow.some(concerns) && !deny.some(concerns)
    })
    if (model.length > longestKnownModel) return bits
    if (this.#byModel.size >= mostKnownModels) this.#byModel.clear()
    this.#byModel.set(ownText(model), bits)
    return bits
  }

  #judge(isAllowed: (action: Action) => boolean): number {
    return actions.filter(isAllowed).reduce((bits, action) => bits | bit(action), 0)
  }

  #isAllowedOnAll(action: Action): boolean {
    const { allow, deny } = this.#rules
    return allow.some((one) => names(one, action) && isForAll(one)) && !deny.some((one) => names(one, action))
  }

  #isAllowedOnSome(action: Action): boolean {
    const { allow, deny } = this.#rules
    return allow.some((one) => names(one, action)) && !deny.some((one) => names(one, action) && isForAll(one))
  }
}

const names = (permission: Permission, action: Action): boolean =>
  permission.action === '*' || permission.action === action
const isForAll = ({ models }: Permission): boolean => models === null || models.isAll

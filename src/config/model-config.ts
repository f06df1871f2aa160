// ModelConfig: a model's config.pbtxt as the rest of the server sees it. The types are those of the table in
// model-config-schema.ts, with the names of fields in camelCase. An absent sub-message and an unset oneof are null; every
// other field has its proto3 default. An int64 is a number (the reader refuses what a number cannot hold), a uint64 a bigint.

import { emptyMessage, messageSchema, type enumTypes, type messageTypes } from './model-config-schema.ts'

type Enums = typeof enumTypes
type Messages = typeof messageTypes
type MessageName = keyof Messages

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

type Scalars = {
  string: string
  bool: boolean
  int32: number
  uint32: number
  int64: number
  uint64: bigint
  float: number
  double: number
}

type Value<Type> = Type extends MessageName
  ? MessageOf<Type>
  : Type extends keyof Enums
    ? keyof Enums[Type]
    : Type extends keyof Scalars
      ? Scalars[Type]
      : never

/** A field's value from its row, which is written as in a .proto file. */
type FieldOf<Row extends string> = Row extends `repeated ${infer Type} ${string}`
  ? Value<Type>[]
  : Row extends `map<${infer Key}, ${infer Type}> ${string}`
    ? Map<Value<Key>, Value<Type>>
    : Row extends `oneof ${string} ${infer Type} ${string}`
      ? Value<Type> | null
      : Row extends `${infer Type} ${string}`
        ? Value<Type> | (Type extends MessageName ? null : never)
        : never

type LastWord<Text extends string> = Text extends `${string} ${infer Rest}` ? LastWord<Rest> : Text
type NameOf<Row extends string> = Row extends `${infer Field} = ${string}` ? LastWord<Field> : never

/** A message by its name in the table. */
type MessageOf<Name extends MessageName> = {
  [Row in Messages[Name][number] as CamelCase<NameOf<Row>>]: FieldOf<Row>
}

export type BatchInput = MessageOf<'BatchInput'>
export type BatchOutput = MessageOf<'BatchOutput'>
export type ModelConfig = MessageOf<'ModelConfig'>
export type ModelDynamicBatching = MessageOf<'ModelDynamicBatching'>
export type ModelEnsemblingStep = MessageOf<'ModelEnsembling.Step'>
export type ModelInput = MessageOf<'ModelInput'>
export type ModelInstanceGroup = MessageOf<'ModelInstanceGroup'>
export type ModelOutput = MessageOf<'ModelOutput'>
export type ModelQueuePolicy = MessageOf<'ModelQueuePolicy'>
export type ModelRateLimiter = MessageOf<'ModelRateLimiter'>
export type ModelRepositoryAgentsAgent = MessageOf<'ModelRepositoryAgents.Agent'>
export type ModelSequenceBatching = MessageOf<'ModelSequenceBatching'>
export type ModelSequenceBatchingControl = MessageOf<'ModelSequenceBatching.Control'>
export type ModelSequenceBatchingInitialState = MessageOf<'ModelSequenceBatching.InitialState'>
export type ModelSequenceBatchingState = MessageOf<'ModelSequenceBatching.State'>
export type ModelVersionPolicy = MessageOf<'ModelVersionPolicy'>
export type ModelWarmup = MessageOf<'ModelWarmup'>
export type ModelWarmupInput = MessageOf<'ModelWarmup.Input'>

export type ConfigDataType = keyof Enums['DataType']
export type BatchInputKind = keyof Enums['BatchInput.Kind']
export type ModelSequenceBatchingControlKind = keyof Enums['ModelSequenceBatching.Control.Kind']

/** A message with these fields, and every other field at its default. */
export const configMessage = <Name extends MessageName>(
  name: Name,
  fields: Partial<MessageOf<Name>> = {},
): MessageOf<Name> => ({ ...(emptyMessage(messageSchema(name)) as MessageOf<Name>), ...fields })

export const emptyModelConfig = (): ModelConfig => configMessage('ModelConfig')

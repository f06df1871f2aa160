// The registry's answers. Keys are those of the registry file; empty values are left out.

import type {
  DetailedIndexEntry,
  RegisteredModel,
  RegisteredVersion,
  RegistryPage,
  VersionContent,
} from '../model/registered-model.ts'
import type { RegistryFields } from '../model/registry-entry.ts'

type Members = Readonly<Record<string, unknown>>

export const encodeRegisteredModel = (model: RegisteredModel): Buffer => encode(modelMembers(model))

export function encodeRegisteredVersion(model: RegisteredModel, version: RegisteredVersion): Buffer {
  const { name, namespace, file, problems, override } = model
  return encode({
    name,
    ...textMember('namespace', namespace),
    ...versionMembers(version),
    ...fieldMembers(version.fields),
    ...aboutFile(file, problems),
    ...textMember('override', override),
  })
}

export const encodeRegistryPage = ({ models, total, next }: RegistryPage): Buffer =>
  encode({ models: models.map(modelMembers), total, ...(next === null ? {} : { next }) })

export const encodeDetailedIndex = (rows: readonly DetailedIndexEntry[]): Buffer =>
  encode(
    rows.map(({ name, version, state, reason, details, fields }) => ({
      name,
      ...textMember('version', version),
      ...textMember('state', state),
      ...textMember('reason', reason),
      ...(details === null ? {} : measures(details)),
      ...fieldMembers(fields),
    })),
  )

export const encodeRegistryHistory = (name: string, events: readonly object[]): Buffer => encode({ name, events })

function modelMembers(model: RegisteredModel): Members {
  const { name, namespace, fields, file, problems, override, reason, versions } = model
  return {
    name,
    ...textMember('namespace', namespace),
    ...fieldMembers(fields),
    ...aboutFile(file, problems),
    ...textMember('override', override),
    ...textMember('reason', reason),
    versions: versions.map((version) => ({ ...versionMembers(version), ...ownFields(fields, version.fields) })),
  }
}

const aboutFile = (file: string, problems: readonly string[]): Members => ({
  ...textMember('file', file),
  ...(problems.length === 0 ? {} : { problems }),
})

const versionMembers = (version: RegisteredVersion): Members => ({
  version: version.version,
  ...textMember('state', version.state),
  ...textMember('reason', version.reason),
  ...measures(version),
})

const measures = ({ content, loadedMs, memoryBytes }: RegisteredVersion): Members => ({
  ...contentMembers(content),
  ...(memoryBytes === 0 ? {} : { memory_bytes: memoryBytes }),
  ...(loadedMs === null ? {} : { loaded_at: new Date(loadedMs).toISOString() }),
})

const contentMembers = (content: VersionContent | null): Members =>
  content === null
    ? {}
    : { content_hash: `sha256:${content.hash}`, size_bytes: content.byteSize, file_count: content.fileCount }

/** The fields of a version that differ from its model. */
function ownFields(ofModel: RegistryFields, ofVersion: RegistryFields): Members {
  const shared = fieldMembers(ofModel)
  const own = Object.entries(fieldMembers(ofVersion)).filter(([key, value]) => shared[key] !== value)
  return Object.fromEntries(own.filter(([key, value]) => JSON.stringify(shared[key]) !== JSON.stringify(value)))
}

function fieldMembers(fields: RegistryFields): Members {
  const { lineage } = fields
  const members = {
    owner: fields.owner,
    description: fields.description,
    tags: fields.tags,
    framework: fields.framework,
    training_data: fields.trainingData,
    metrics: fields.metrics,
    approved_by: fields.approvedBy,
    lineage:
      lineage === undefined
        ? undefined
        : { ...textMember('parent_version', lineage.parentVersion), ...textMember('source_uri', lineage.sourceUri) },
    cost: fields.cost === undefined ? undefined : { instance_hour: fields.cost.instanceHour },
    extra: fields.extra,
  }
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}

const textMember = (key: string, text: string | undefined): Members =>
  text === undefined || text === '' ? {} : { [key]: text }

const encode = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

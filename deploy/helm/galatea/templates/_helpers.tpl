{{- define "galatea.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "galatea.selector" -}}
app.kubernetes.io/name: galatea
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "galatea.labels" -}}
{{ include "galatea.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "galatea.claim" -}}
{{- default (printf "%s-models" (include "galatea.name" .)) .Values.models.claim -}}
{{- end -}}

{{- define "galatea.accessSecret" -}}
{{- default (printf "%s-access" (include "galatea.name" .)) .Values.files.accessSecret -}}
{{- end -}}

{{- define "galatea.hasAccess" -}}
{{- if or .Values.files.access .Values.files.accessSecret }}true{{ end -}}
{{- end -}}

{{- define "galatea.credentials" -}}
{{- if .Values.models.credentialsSecret }}
envFrom:
  - secretRef: { name: {{ .Values.models.credentialsSecret }} }
{{- end }}
{{- end -}}

{{- define "galatea.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
capabilities: { drop: [ALL] }
seccompProfile: { type: RuntimeDefault }
{{- end -}}

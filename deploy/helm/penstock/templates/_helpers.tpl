{{- define "penstock.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "penstock.labels" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "penstock.select" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "penstock.image" -}}
{{ .root.Values.image.registry }}{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* What every container may not do. */}}
{{- define "penstock.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Options as arguments: sorted, so that equal values make equal pods. */}}
{{- define "penstock.arguments" -}}
{{- range $name, $value := . }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}

{{/* Not empty where a pool may have no worker: its jobs wait for the first one. */}}
{{- define "penstock.sleeps" -}}
{{- range $pool, $p := .Values.pools }}
{{- if and $p.enabled (eq $p.scaling.kind "keda") (eq (int $p.scaling.min) 0) }}yes{{ end }}
{{- end }}
{{- end }}

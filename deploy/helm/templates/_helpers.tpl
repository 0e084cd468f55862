{{- define "odradek.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "odradek.selector" -}}
app.kubernetes.io/name: odradek
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "odradek.labels" -}}
{{ include "odradek.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

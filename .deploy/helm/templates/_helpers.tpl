{{- define "penstock.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "penstock.file" -}}
{{ .Values.config | trim }}
{{- with .Values.tls.secret }}
tls: { cert: /etc/penstock-tls/tls.crt, key: /etc/penstock-tls/tls.key }
{{- end }}
{{- if .Values.store.url }}
fleet:
  edges: {{ .Values.store.edges | default (ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled) }}
  {{- if .Values.store.signing.secret }}
  secrets: ["${PENSTOCK_FLEET_SECRET}"]
  {{- end }}
  store:
    url: {{ .Values.store.url | quote }}
    {{- if .Values.store.secret }}
    user: {{ .Values.store.user | quote }}
    password: "${PENSTOCK_STORE_PASSWORD}"
    {{- end }}
{{- end }}
{{- end }}

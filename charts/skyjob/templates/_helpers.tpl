{{- define "skyjob.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "skyjob.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "skyjob.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "skyjob.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "skyjob.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-operator" (include "skyjob.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Empty: probes have the cluster's default priority. */ -}}
{{- define "skyjob.probePriorityClass" -}}
{{- $name := ternary (printf "%s-probe" (include "skyjob.fullname" .)) "" .Values.probePriorityClass.create -}}
{{- default $name .Values.probePriorityClass.name -}}
{{- end -}}

{{- /* The Secret with the certificate that reads workers' metrics. Empty: there is none. */ -}}
{{- define "skyjob.reader" -}}
{{- if and .Values.tls.enabled .Values.metrics.workers.enabled -}}
{{- include "skyjob.fullname" . }}-worker-metrics
{{- end -}}
{{- end -}}

{{- /* Who may reach workers' metrics, as the operator takes it: NAMESPACE/KEY=VALUE,... */ -}}
{{- define "skyjob.readers" -}}
{{- $from := .Values.metrics.workers.from -}}
{{- $labels := list -}}
{{- range $key, $value := $from.labels }}{{ $labels = append $labels (printf "%s=%s" $key $value) }}{{ end -}}
{{- $from.namespace }}{{ with $labels }}/{{ join "," . }}{{ end -}}
{{- end -}}

{{- /* The ClusterRole of those who scrape. */ -}}
{{- define "skyjob.metricsReader" -}}
{{ include "skyjob.fullname" . }}-metrics-reader
{{- end -}}

{{- /* The chart's own account that has it, and the Secret with its token. */ -}}
{{- define "skyjob.scraper" -}}
{{ include "skyjob.fullname" . }}-scraper
{{- end -}}

{{- define "skyjob.selector" -}}
app.kubernetes.io/name: {{ include "skyjob.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "skyjob.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "skyjob.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: skyjob
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* (list . .Values.image): registry/repository:tag, or with a digest in place of the tag */ -}}
{{- define "skyjob.image" -}}
{{- $chart := index . 0 -}}
{{- $image := index . 1 -}}
{{- with default $chart.Values.global.imageRegistry $image.registry }}{{ . }}/{{ end -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default $chart.Chart.AppVersion $image.tag }}{{ end }}
{{- end -}}

{{- /* What the operator does in the namespaces that it looks after. */ -}}
{{- define "skyjob.rules" -}}
- apiGroups: [skyjob.dev]
  resources: [skyjobs]
  verbs: [list, watch]
- apiGroups: [skyjob.dev]
  resources: [skyjobs/status]
  verbs: [patch]
- apiGroups: [skyjob.dev]
  resources: [skyjobs] # once their time to live has passed
  verbs: [delete]
- apiGroups: [skyjob.dev]
  resources: [skyjobs/finalizers] # to own pods that block the deletion of their SkyJob
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [secrets] # the key that a job's workers share with the operator{{ if .Values.tls.enabled }}, and their certificates{{ end }}
  verbs: [get, create{{ if .Values.tls.enabled }}, patch{{ end }}]
- apiGroups: [""]
  resources: [persistentvolumeclaims] # can probes read the data, on any node?
  verbs: [get]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads] # to let go of pods that are not to be replaced
  verbs: [delete]
{{- end -}}

{{- /* Where a PodMonitor or ServiceMonitor finds the metrics, and how it asks. */ -}}
{{- define "skyjob.endpoint" -}}
port: metrics
path: /metrics
scheme: https
authorization:
  type: Bearer
  credentials:
    name: {{ default (include "skyjob.scraper" .) .Values.metrics.tokenSecret }}
    key: token
tlsConfig:
  {{- if .Values.tls.enabled }}
  serverName: metrics.skyjob.internal
  ca:
    secret:
      name: {{ include "skyjob.fullname" . }}-ca
      key: ca.crt
  {{- else }}
  insecureSkipVerify: true # without a CA the operator's certificate is its own
  {{- end }}
{{- end -}}

{{- /* The names are fixed: the operator, its roles and the commands of tfjob know them. */ -}}
{{- define "tf-job-operator.labels" -}}
app.kubernetes.io/name: tf-job-operator
app.kubernetes.io/part-of: tfjob
{{- end -}}

{{- define "tf-job-operator.metadata" -}}
name: tf-job-operator
namespace: {{ .Release.Namespace }}
labels:
  {{- include "tf-job-operator.labels" . | nindent 2 }}
{{- end -}}

{{- define "tf-job-operator.image" -}}
{{- required "image is missing: no registry has an image of the operator yet. Make one with tools/image.py as docs/guides/operator.md shows, and name it: --set image=REGISTRY/tf-job-operator:TAG" .Values.image -}}
{{- end -}}

{{- define "tf-job-operator.webhook" -}}
{{- if and .Values.webhook.enabled (not .Values.namespaceOnly) }}true{{ end -}}
{{- end -}}

{{- define "tf-job-operator.arguments" -}}
- operator
- run
{{- if .Values.leaderElection.enabled }}
- --leader-elect
{{- end }}
{{- if .Values.namespaceOnly }}
- --namespace={{ .Release.Namespace }}
{{- end }}
{{- if include "tf-job-operator.webhook" . }}
- --webhook-bind-address=:9443
{{- end }}
{{- if not .Values.metrics.enabled }}
- --metrics-bind-address=0
{{- end }}
{{- with .Values.gangScheduler }}
- --gang-scheduler-name={{ . }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tf-job-operator.rules" -}}
{{- $rules := .root.Files.Get "files/rules.yaml" | fromYaml -}}
{{- range .of }}
{{ toYaml (index $rules .) }}
{{- end }}
{{- end -}}

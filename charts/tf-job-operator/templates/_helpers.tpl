{{- /* The names are fixed: the operator, its roles and the tfjob commands use them. */ -}}
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
{{- required "image is missing: no release of tfjob publishes an operator image yet. Build one with tools/image.py (see docs/guides/operator.md), then pass --set image=REGISTRY/tf-job-operator:TAG" .Values.image -}}
{{- end -}}

{{- /* Another image of the release: in the registry and with the tag of the operator's image. */ -}}
{{- define "tf-job-operator.siblingImage" -}}
{{- $image := include "tf-job-operator.image" .root | regexFind "^[^@]*" -}}
{{- $name := splitList "/" $image | last -}}
{{- $tag := regexFind ":.*" $name | default (printf ":%s" .root.Chart.AppVersion) -}}
{{- printf "%s%s%s" (trimSuffix $name $image) .name $tag -}}
{{- end -}}

{{- define "tf-job-operator.tensorboardImage" -}}
{{- .Values.tensorboardImage | default (include "tf-job-operator.siblingImage" (dict "root" . "name" "tf-job-tensorboard")) -}}
{{- end -}}

{{- define "tf-job-operator.testImage" -}}
{{- .Values.test_image | default (include "tf-job-operator.siblingImage" (dict "root" . "name" "tf-job-sample")) -}}
{{- end -}}

{{- /* The older versions of kubeflow.org, which the operator's webhook converts; none with namespaceOnly. */ -}}
{{- define "tf-job-operator.olderVersions" -}}
{{- with without .Values.apiVersions "v1" "tensorflow.org/v1alpha1" -}}
{{- if not (has "v1" $.Values.apiVersions) -}}
{{- fail (printf "apiVersions: %s needs v1 in the list, because jobs are stored as v1" (first .)) -}}
{{- end -}}
{{- if not $.Values.namespaceOnly }}{{ join "," . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "tf-job-operator.groups" -}}
{{- if has "v1" .Values.apiVersions }}
- kubeflow.org
{{- end }}
{{- if has "tensorflow.org/v1alpha1" .Values.apiVersions }}
- tensorflow.org
{{- end }}
{{- end -}}

{{- /* Whether jobs are validated on admission, and whether the operator runs its webhook server, which also converts. */ -}}
{{- define "tf-job-operator.admission" -}}
{{- if and .Values.webhook.enabled (not .Values.namespaceOnly) }}true{{ end -}}
{{- end -}}
{{- define "tf-job-operator.webhook" -}}
{{- if or (include "tf-job-operator.admission" .) (include "tf-job-operator.olderVersions" .) }}true{{ end -}}
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
- --api-groups={{ include "tf-job-operator.groups" . | fromYamlArray | join "," }}
{{- with .Values.gangScheduler }}
- --gang-scheduler-name={{ . }}
{{- end }}
- --tensorboard-image={{ include "tf-job-operator.tensorboardImage" . }}
{{- with .Values.tfImage }}
- --tf-image={{ . }}
{{- end }}
{{- with .Values.config.configmap }}
- --config-map={{ . }}
{{- end }}
{{- with base .Values.config.file }}
{{- if ne . "controller_config_file.yaml" }}
- --config-key={{ . }}
{{- end }}
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

{{- define "tf-job-operator.jobRules" -}}
{{- $parts := list }}
{{- range include "tf-job-operator.groups" . | fromYamlArray }}
{{- $parts = append $parts (trimSuffix ".org" .) }}
{{- end }}
{{- include "tf-job-operator.rules" (dict "root" . "of" (append $parts "jobs")) }}
{{- end -}}

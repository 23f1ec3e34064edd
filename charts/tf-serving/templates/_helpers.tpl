{{- define "tf-serving.labels" -}}
app: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tf-serving.modelName" -}}
{{- required "modelName is missing: pass the name by which clients ask for the model, such as --set modelName=mnist" .Values.modelName -}}
{{- end -}}

{{- define "tf-serving.modelPath" -}}
{{- $path := required "modelPath is missing: pass the folder that contains the versions of the model, such as --set modelPath=/models/mnist" .Values.modelPath -}}
{{- if and (hasPrefix "/" $path) (not .Values.claim.name) -}}
{{- fail (printf "modelPath: %s is a folder, so claim.name must name the claim that contains it" $path) -}}
{{- end -}}
{{- if and .Values.claim.name (not (hasPrefix (printf "%s/" (trimSuffix "/" .Values.claim.mountPath)) (printf "%s/" $path))) -}}
{{- fail (printf "modelPath: %s is not below claim.mountPath (%s)" $path .Values.claim.mountPath) -}}
{{- end -}}
{{- $path -}}
{{- end -}}

{{- /* The variables that TensorFlow's reader of S3 and the SDK of AWS read. */ -}}
{{- define "tf-serving.s3" -}}
{{- with .Values.s3 -}}
{{- if .secretName }}
- name: AWS_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ .secretName }}, key: {{ .accessKeyIdKey }}}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ .secretName }}, key: {{ .secretAccessKeyKey }}}}
{{- end }}
{{- if .region }}
- {name: AWS_REGION, value: {{ .region | quote }}}
- {name: S3_REGION, value: {{ .region | quote }}}
{{- end }}
{{- if .endpoint }}
{{- $scheme := ternary "http" "https" (hasPrefix "http://" .endpoint) }}
{{- $host := regexReplaceAll "^https?://" .endpoint "" }}
- {name: S3_ENDPOINT, value: {{ $host | quote }}}
- {name: S3_USE_HTTPS, value: {{ ternary "0" "1" (eq $scheme "http") | quote }}}
- {name: AWS_ENDPOINT_URL, value: {{ printf "%s://%s" $scheme $host | quote }}}
{{- end }}
{{- end -}}
{{- end -}}

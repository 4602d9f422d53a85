{{- define "zenit.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "zenit.labels" -}}
app.kubernetes.io/name: zenit
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "zenit.selector" -}}
app.kubernetes.io/name: zenit
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zenit.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The addresses of all pods of a role, each by the name that stays: (dict "root" $ "set" NAME "replicas" N "port" P). */}}
{{- define "zenit.addresses" -}}
{{- $found := list -}}
{{- range $number := until (int .replicas) -}}
{{- $found = append $found (printf "%s-%d.%s.%s.svc.%s:%d" $.set $number $.set $.root.Release.Namespace $.root.Values.clusterDomain (int $.port)) -}}
{{- end -}}
{{- join "," $found -}}
{{- end -}}

{{- define "zenit.nameServers" -}}
{{- $set := printf "%s-namesrv" (include "zenit.name" .) -}}
{{- include "zenit.addresses" (dict "root" . "set" $set "replicas" .Values.nameServers.replicas "port" 9876) -}}
{{- end -}}

{{- define "zenit.controllers" -}}
{{- $set := printf "%s-controller" (include "zenit.name" .) -}}
{{- include "zenit.addresses" (dict "root" . "set" $set "replicas" .Values.controllers.replicas "port" 9878) -}}
{{- end -}}

{{/* One value as the environment takes it: lists by commas, whole numbers without an exponent. */}}
{{- define "zenit.text" -}}
{{- if kindIs "slice" . -}}{{ join "," . }}{{- else if kindIs "float64" . -}}{{ if eq (floor .) . }}{{ printf "%.0f" . }}{{ else }}{{ printf "%v" . }}{{ end }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* Settings as environment variables: (dict "role" "broker" "settings" {...}). */}}
{{- define "zenit.settings" -}}
{{- range $key := keys .settings | sortAlpha }}
{{- $path := ternary $key (printf "%s.%s" $.role $key) (contains "." $key) }}
- name: ZENIT_{{ $path | replace "." "__" | upper }}
  value: {{ include "zenit.text" (index $.settings $key) | quote }}
{{- end }}
{{- end -}}

{{/* What all containers have: (dict "root" $ "role" "broker"). A proxy has the key of a user; it is told no secret of others. */}}
{{- define "zenit.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: ZENIT_METRICS__BIND
  value: "0.0.0.0:9880"
- name: ZENIT_LOG__FORMAT
  value: json
{{- if and .root.Values.security.enabled (eq .role "proxy") }}
- name: ZENIT_PROXY__KEY
  value: /etc/zenit/key
{{- else if .root.Values.security.enabled }}
- name: ZENIT_SECURITY__KEY
  value: /etc/zenit/key
- name: ZENIT_SECURITY__TRUSTED
  value: /etc/zenit/trusted/trusted.toml
- name: ZENIT_SECURITY__SECRETS_KEY
  value: /etc/zenit/trusted/users.secrets
{{- end }}
{{- end -}}

{{- define "zenit.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.runAsUser }}
runAsGroup: {{ .Values.podSecurity.runAsUser }}
fsGroup: {{ .Values.podSecurity.fsGroup }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "zenit.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* (dict "root" $ "role" "broker"). Its own key alone, though the Secret has those of all pods. The trusted file is in a directory: what is mounted by subPath does
not change in a pod that runs, and servers read this file again when it has changed. */}}
{{- define "zenit.keyMounts" -}}
{{- if .root.Values.security.enabled }}
- {name: keys, mountPath: /etc/zenit/key, subPathExpr: $(POD_NAME).key, readOnly: true}
{{- if ne .role "proxy" }}
- {name: trusted, mountPath: /etc/zenit/trusted, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "zenit.keyVolumes" -}}
{{- if .root.Values.security.enabled }}
- name: keys
  secret: {secretName: {{ .root.Values.security.secretName }}, defaultMode: 0440}
{{- if ne .role "proxy" }}
- name: trusted
  secret:
    secretName: {{ .root.Values.security.secretName }}
    defaultMode: 0440
    items: [{key: trusted.toml, path: trusted.toml}, {key: users.secrets, path: users.secrets}]
{{- end }}
{{- end }}
{{- end -}}

{{/* Alive while its loop turns; ready where clients and replicas may rely on it. A store that is read back takes its time. */}}
{{- define "zenit.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 2
  failureThreshold: 300
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{/* Where pods go: (dict "root" $ "component" NAME). */}}
{{- define "zenit.placement" -}}
{{- $term := dict "topologyKey" .root.Values.topologyKey "labelSelector" (dict "matchLabels" (dict "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/component" .component)) -}}
affinity:
  podAntiAffinity:
{{- if eq .root.Values.antiAffinity "hard" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - {{ toYaml $term | nindent 8 | trim }}
{{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm: {{ toYaml $term | nindent 10 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

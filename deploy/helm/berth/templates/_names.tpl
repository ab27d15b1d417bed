{{- define "berth.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "berth.serviceAccountName" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}{{ else if .Values.serviceAccount.create }}{{ include "berth.name" . }}{{ else }}default{{ end }}
{{- end }}

{{- define "berth.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "berth.clientCa" -}}
{{- if or .Values.tls.clientCaSecretName .Values.tls.clientCaConfigMapName }}yes{{ end }}
{{- end }}

{{- /* Whether those may read who show neither token nor certificate. */ -}}
{{- define "berth.anonymousReads" -}}
{{- $found := false }}
{{- range .Values.auth.roleBindings }}
{{- if or (has "system:anonymous" (get . "users" | default list)) (has "system:unauthenticated" (get . "groups" | default list)) }}
{{- if ne .role "reader" }}{{ fail (printf "auth.roleBindings: system:anonymous may be given the role reader, not %s" .role) }}{{ end }}
{{- $found = true }}
{{- end }}
{{- end }}
{{- if $found }}yes{{ end }}
{{- end }}

{{- /* Whether a role is given to anybody else, who has to be known by something. */ -}}
{{- define "berth.bindsOthers" -}}
{{- $found := false }}
{{- range .Values.auth.roleBindings }}
{{- if or (without (get . "users" | default list) "system:anonymous") (without (get . "groups" | default list) "system:unauthenticated") }}{{ $found = true }}{{ end }}
{{- end }}
{{- if $found }}yes{{ end }}
{{- end }}

{{- /* Refuses what Berth would refuse at its start, with the value to set. */ -}}
{{- define "berth.check" -}}
{{- if not .Values.insecure }}
{{- if not .Values.tls.secretName }}{{ fail "tls.secretName: a Secret with tls.crt and tls.key is required, or insecure: true behind a NetworkPolicy" }}{{ end }}
{{- if not (or (include "berth.clientCa" .) .Values.auth.tokenSecretName (include "berth.anonymousReads" .)) }}{{ fail "auth.tokenSecretName, tls.clientCaSecretName or tls.clientCaConfigMapName: a way to authenticate callers is required, or a role binding that lets system:anonymous read, or insecure: true behind a NetworkPolicy" }}{{ end }}
{{- end }}
{{- if and (include "berth.bindsOthers" .) (not (or (include "berth.clientCa" .) .Values.auth.tokenSecretName)) }}{{ fail "auth.roleBindings: users other than system:anonymous can have a role only with auth.tokenSecretName, tls.clientCaSecretName or tls.clientCaConfigMapName" }}{{ end }}
{{- if and .Values.ledger.enabled (gt (int .Values.replicaCount) 1) }}{{ fail "ledger.enabled: the ledger is a file of one process; replicaCount must be 1" }}{{ end }}
{{- if and .Values.etcd.endpoints .Values.ledger.enabled }}{{ fail "etcd.endpoints: the ledger is in etcd or in a file, not in both" }}{{ end }}
{{- if and .Values.etcd.endpoints .Values.tls.secretName (not .Values.etcd.replicaSecretName) }}{{ fail "etcd.replicaSecretName: with TLS, replicas need a certificate to reach each other" }}{{ end }}
{{- if and (eq .Values.mode "schedule") (gt (int .Values.replicaCount) 1) (not .Values.schedule.leaderElect) }}{{ fail "schedule.leaderElect: several replicas need an election" }}{{ end }}
{{- end }}

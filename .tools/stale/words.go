package main

import "strings"

// verbs are the verbs with which doc comments begin.
var verbs = wordSet(`adds appends builds checks closes contains counts creates decides decodes
	describes has implements is makes parses reads records removes reports returns runs sends sets starts
	stops writes`)

// foreign lists the words of other people: products, languages and other modules.
var foreign = wordSet(`Agents Asian Autobahn Chinese ClientHello Cohere Copilot CosyVoice
	DPoP DashScope December DeepSeek East_Asian_Width Embeddings Encrypt English Entra Gemini GenAI Google
	Grafana Granite Http11Probe Hugging IndexTTS InferencePool Inference Jamba Java JavaScript Jina Keiser
	Kelvin Keycloak Kimi Kokoro LangChain Latin Lemire Lua Marsaglia MeloTTS MiniMax Multipath NAME Newcombe
	Nomad OpenID OpenRouter PromQL Python RealtimeAudioFormats RealtimeTranscriptionSessionCreateRequest
	Russian SubjectPublicKeyInfo Swarm TabbyAPI Tab TensorRT TestMain ThreadUnsupportedRequestErrorDetails
	Tsang Unicode Valkey Voyage VoxCPM WatchdogSec Windows WriteTo Xunfei arXiv subjectAltName uPlot vLLM
	vNUMBER xAI`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

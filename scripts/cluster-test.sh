#!/usr/bin/env bash
# Runs the manifests and the Helm chart as their users do, in a Kubernetes of two nodes: etcd, containerd, dnsmasq and the network's
# plugins are Debian's, Kubernetes and Helm are built of their modules (deploy/test/cluster). All is in namespaces of its own.
# Kafka and the registry are programs beside the cluster, the image is made by the Dockerfile.
#
# It needs Linux, root, Go, Java 17, Maven, two cores, 8 GB of memory and of disk, and the network for the builds.
# `make cluster-test` runs it.
#
#   scripts/cluster-test.sh [STEP ...]    # all of: overlays components install upgrade rollback scale drain remove
#
# ENGINE_WORK=FOLDER keeps Debian, programs and images there, for the next run. Each step from upgrade on needs install.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $(id -u) == 0 ]] || { echo "cluster-test: namespaces and chroot need root" >&2; exit 1; }
steps=("$@")
[[ $# -gt 0 ]] || steps=(overlays components install upgrade rollback scale drain remove)
name=cluster
. scripts/engine.sh
kubectl() { inside /work/programs/kubectl --kubeconfig /work/kube/config "$@"; }
helm() { inside /work/programs/helm --kubeconfig /work/kube/config -n odradek "$@"; }
fail() {
	echo "cluster-test: $*" >&2
	kubectl -n odradek get pods,statefulsets,poddisruptionbudgets -o wide >&2 || true
	kubectl -n odradek get events --sort-by .lastTimestamp | tail -15 >&2 || true
	kubectl -n odradek logs -l app.kubernetes.io/name=odradek --tail 8 --prefix >&2 || true
	exit 1
}

say "programs: Kubernetes and Helm, minutes the first time"
version=k8s.io/component-base/version
(cd deploy/test/cluster && kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes) &&
	GOGC=400 CGO_ENABLED=0 go build -gcflags=all=-dwarf=false -ldflags "-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=$(cut -d. -f2 <<<"$kubernetes")" \
		-o "$work/programs/" tool)
CGO_ENABLED=0 go build -ldflags "-s -w" -o "$work/programs/pause" deploy/test/cluster/pause.go
CGO_ENABLED=0 go build -o "$work/judge" deploy/test/compose/judge.go
CGO_ENABLED=0 go build -o "$work/worker" ./cmd/worker
jars
boot "$(go env GOROOT)=/context/go"

say "images"
image_base
image --build-context go=/context/go --target golang -t golang:"$(sed -n 's/^FROM .*golang:\([^ ]*\) AS modules/\1/p' Dockerfile)" /tree/deploy/test/compose ||
	fail "stand-in for Debian with Go"
repository=registry.example.com/odradek
image --secret id=ca,src=/etc/ca.pem --build-arg COMMIT="$commit" --target worker -t $repository:1 /tree || fail "docker build"
image --secret id=ca,src=/etc/ca.pem --build-arg COMMIT="$commit-next" --target worker -t $repository:2 /tree || fail "docker build of the next version"
inside bash -c 'printf "FROM scratch\nCOPY pause /pause\nENTRYPOINT [\"/pause\"]\n" >/tmp/Dockerfile; docker build -q -t pause:1 -f /tmp/Dockerfile /work/programs' >/dev/null
docker save -o /work/images.tar $repository:1 $repository:2 pause:1
kill "$uplink"

# What pods reach outside the cluster: the brokers, the registry and the names of both.
outside=198.19.1.1
for i in 1 2; do inside ip address add 198.19.1.$i/32 dev lo; done
apart=(nsenter -t "$first" -n env ODRADEK_KAFKA_BROKERS=$outside:9092 ODRADEK_SCHEMA_REGISTRY_URL=http://$outside:8081/apis/ccompat/v7)
rm -rf "$work/kafka" "$work/kube" && mkdir -p "$work/kafka" "$work/kube"
cat >"$work/kafka/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://$outside:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$work/kafka/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
END
java -cp "$cache/kafka-$kafka/lib/*" kafka.tools.StorageTool format -t 5L6g3nShT-eMCtK--X86sw -c "$work/kafka/server.properties" >"$work/kafka/log" 2>&1 ||
	{ cat "$work/kafka/log" >&2; exit 1; }
beside() { # LOG COMMAND
	local log=$1
	shift
	"${apart[@]}" "$@" >"$work/$log" 2>&1 &
	started+=($!)
}
beside kafka/log java -Xmx512m -cp "$cache/kafka-$kafka/lib/*" kafka.Kafka "$work/kafka/server.properties"
beside registry.log java -Xmx300m -Dquarkus.http.host=0.0.0.0 -Dquarkus.http.port=8081 -jar "$cache/apicurio-registry-$registry"/*-runner.jar

say "a cluster"
service() { # NAME COMMAND: a program of the cluster
	local log=$1
	shift
	inside "$@" >"$work/kube/$log.log" 2>&1 &
	started+=($!)
}
mkdir -p "$work/kube/certificates"
openssl genrsa -out "$work/kube/sa.key" 2048 2>/dev/null
echo 'admin,admin,1,"system:masters"' >"$work/kube/tokens"
cat >"$work/kube/config" <<'END'
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: admin}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
service dns dnsmasq --keep-in-foreground --no-resolv --no-hosts --listen-address=$outside --bind-interfaces --user=root \
	--address=/kafka-bootstrap.odradek.svc.cluster.local/$outside --address=/schema-registry.odradek.svc.cluster.local/$outside
service etcd etcd --data-dir /work/kube/etcd --unsafe-no-fsync
service apiserver /work/programs/kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=$outside --secure-port=6443 \
	--cert-dir=/work/kube/certificates --service-cluster-ip-range=198.19.2.0/24 --authorization-mode=RBAC --token-auth-file=/work/kube/tokens \
	--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=/work/kube/sa.key \
	--service-account-signing-key-file=/work/kube/sa.key --kubelet-preferred-address-types=InternalIP --enable-admission-plugins=NodeRestriction,PodSecurity
api() { [[ $(kubectl get --raw /readyz 2>/dev/null) == ok ]]; }
within 120 api || { tail -n 5 "$work/kube/etcd.log" "$work/kube/apiserver.log" >&2; fail "kube-apiserver does not start"; }
service controllers /work/programs/kube-controller-manager --kubeconfig=/work/kube/config --service-account-private-key-file=/work/kube/sa.key \
	--leader-elect=false --controllers='*,-nodeipam,-cloud-node-lifecycle'
service scheduler /work/programs/kube-scheduler --kubeconfig=/work/kube/config --leader-elect=false
# What a kubelet wants of the kernel, in these namespaces alone.
inside bash -ec 'mkdir -p /tmp/kernel; for s in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	f=/proc/sys/${s%=*}; echo "${s#*=}" >"/tmp/kernel/${f##*/}"; mount --bind "/tmp/kernel/${f##*/}" "$f"; done'
node() { # N: containerd, a network and a kubelet
	local at=/work/kube/node$1 cgroup=odradek-cluster/node$1
	mkdir -p "$work/kube/node$1/net"
	inside bash -c "mkdir -p /sys/fs/cgroup/{cpu,cpuacct,cpuset,memory,pids,hugetlb,blkio,devices,freezer,systemd}/$cgroup 2>/dev/null; cd /sys/fs/cgroup/cpuset &&
		for d in odradek-cluster $cgroup; do cat cpuset.cpus >\$d/cpuset.cpus; cat cpuset.mems >\$d/cpuset.mems; done" || true
	cat >"$work/kube/node$1/net/bridge.conflist" <<END
{"cniVersion": "0.4.0", "name": "net$1", "plugins": [{"type": "bridge", "bridge": "net$1", "isGateway": true, "ipMasq": false,
	"ipam": {"type": "host-local", "ranges": [[{"subnet": "198.19.1$1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
	cat >"$work/kube/node$1/containerd.toml" <<END
version = 2
root = "/var/lib/docker/node$1"
state = "/run/node$1"
[grpc]
  address = "/run/node$1.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$at/net"
END
	cat >"$work/kube/node$1/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
oomScoreAdj: 0
port: $((10250 + $1))
healthzPort: $((10240 + $1))
containerRuntimeEndpoint: unix:///run/node$1.sock
podLogsDir: $at/logs
clusterDNS: [$outside]
clusterDomain: cluster.local
resolvConf: /dev/null
makeIPTablesUtilChains: false
evictionHard: {memory.available: 100Mi, nodefs.available: "0%", imagefs.available: "0%"}
END
	service containerd$1 containerd --config "$at/containerd.toml"
	within 30 inside ctr -a "/run/node$1.sock" version >/dev/null 2>&1 || { tail -n 5 "$work/kube/containerd$1.log" >&2; fail "containerd does not start"; }
	inside ctr -a "/run/node$1.sock" -n k8s.io images import /work/images.tar >/dev/null
	service kubelet$1 /work/programs/kubelet --config="$at/kubelet.yaml" --kubeconfig=/work/kube/config --root-dir="/var/lib/docker/kubelet$1" \
		--hostname-override="node$1" --node-ip="198.19.1.$1"
}
node 1
node 2
nodes() { [[ $(kubectl get nodes -o jsonpath='{.items[*].status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == "True True" ]]; }
within 120 nodes || { tail -n 5 "$work"/kube/kubelet?.log >&2; fail "not both nodes are ready"; }

say "a topic that is written to"
registered() { "${apart[@]}" curl -sf -o /dev/null http://127.0.0.1:8081/health/ready; }
within 120 registered || { tail -n 5 "$work/registry.log" "$work/kafka/log" >&2; fail "the registry does not start"; }
group=plant
judge() { "${apart[@]}" ODRADEK_GROUP="$group" "$work/judge" "$@" || fail "judge $*"; }
write() {
	beside generate.log "$work/worker" generate -topic sensors -force -labels-topic sensors-labels -sensors 25 -rate 200 -fault-every 600 -dropout absent "$@"
	generator=$!
}
write -history 1m

# pods N NAME: so many pods of this set are ready, and no others are there.
pods() {
	[[ $(kubectl -n odradek get pods -l app.kubernetes.io/name=odradek -o json | jq -r --argjson n "$1" --arg name "$2" '.items |
		length == $n and all(.metadata.name | startswith($name + "-")) and all(.metadata.deletionTimestamp == null)
		and all(any(.status.conditions[]?; .type == "Ready" and .status == "True"))') == true ]]
}
expect_pods() { within "$3" pods "$1" "$2" || fail "not $1 ready pods of $2 after $3 s"; }
# unattended MESSAGE COMMAND: says what the longest time without a score of a partition is meanwhile.
unattended() {
	local what=$1
	shift
	"${apart[@]}" ODRADEK_GROUP="$group" "$work/judge" pause >"$work/pause" 2>&1 &
	local watcher=$!
	started+=($watcher)
	sleep 3
	"$@"
	judge live
	kill -INT $watcher
	wait $watcher || { cat "$work/pause" >&2; fail "judge pause"; }
	say "$what: $(cat "$work/pause")"
}
gone() { ! kubectl get namespace odradek >/dev/null 2>&1; }
delete_namespace() {
	kubectl delete namespace odradek --wait=false >/dev/null
	within 120 gone || fail "the namespace is not deleted"
}

# The manifests are copied and changed, as they say.
manifests() {
	rm -rf "$work/manifests" && cp -r deploy/kubernetes "$work/manifests"
	sed -i 's|^ODRADEK_SCHEMA_REGISTRY_URL=.*|&/apis/ccompat/v7|' "$work/manifests/base/worker.env"
}

step_overlays() {
	say "overlays: cpu, on a fresh cluster"
	manifests
	kubectl apply -k /work/manifests/overlays/cpu >"$work/apply.log" 2>&1 || { cat "$work/apply.log" >&2; fail "kubectl apply -k overlays/cpu"; }
	! grep -i warning "$work/apply.log" >&2 || fail "kubectl apply warns"
	expect_pods 3 odradek 120
	say "overlays: three pods are ready"
	judge group 3
	judge live
	[[ $(kubectl -n odradek get poddisruptionbudget odradek -o jsonpath='{.status.disruptionsAllowed} {.spec.unhealthyPodEvictionPolicy}') == "1 AlwaysAllow" ]] ||
		fail "the disruption budget does not allow one eviction"
	[[ $(kubectl -n odradek run root --image=$repository:1 2>&1) == *'violates PodSecurity "restricted'* ]] || fail "the namespace is not restricted"
	delete_namespace

	say "overlays: gpu"
	kubectl apply -k /work/manifests/overlays/gpu >"$work/apply.log" 2>&1 || { cat "$work/apply.log" >&2; fail "kubectl apply -k overlays/gpu"; }
	! grep -i warning "$work/apply.log" >&2 || fail "kubectl apply warns"
	waits() { [[ $(kubectl -n odradek get pods -o jsonpath='{.items[*].status.conditions[?(@.type=="PodScheduled")].message}') == *"Insufficient nvidia.com/gpu"* ]]; }
	within 30 waits || fail "pods of the overlay gpu do not wait for a GPU"
	# Nodes that say that they have GPUs, for workers that find none in their container, and score on the CPU.
	for n in node1 node2; do
		kubectl patch node $n --subresource=status --type=json -p '[{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "2"}]' >/dev/null
	done
	kubectl -n odradek set resources statefulset odradek --requests=cpu=500m,memory=2Gi >/dev/null
	kubectl -n odradek delete pods --all --wait=false >/dev/null
	expect_pods 3 odradek 120
	judge group 3
	judge live
	delete_namespace
}

step_components() {
	say "components: with the definitions of KEDA and of the Prometheus Operator, without their programs"
	kubectl create -f /tree/deploy/test/kubernetes/testdata/keda.sh_scaledobjects.yaml -f /tree/deploy/test/kubernetes/testdata/monitoring.coreos.com_podmonitors.yaml >/dev/null ||
		fail "definitions"
	accepted() { kubectl apply --dry-run=server -k /tree/deploy/test/kubernetes/testdata/components >"$work/apply.log" 2>&1; }
	kubectl create namespace odradek >/dev/null # a dry run makes none
	within 30 accepted || { cat "$work/apply.log" >&2; fail "kubectl apply -k with both components"; }
	grep -q '^scaledobject.keda.sh/odradek created' "$work/apply.log" && grep -q '^podmonitor.monitoring.coreos.com/odradek created' "$work/apply.log" ||
		{ cat "$work/apply.log" >&2; fail "no ScaledObject or no PodMonitor"; }
	delete_namespace
}

group_of_chart=line
values() {
	cat >"$work/values.yaml" <<-END
	image: {repository: $repository, tag: "1"}
	config:
	  group: $group_of_chart
	  session_timeout: 15s # a worker that is scaled away keeps its partitions until then
	  transaction_timeout: 10s
	  schema_registry_url: http://schema-registry:8081/apis/ccompat/v7
	resources: {requests: {cpu: 500m, memory: 1Gi}}
	END
}
release() { # COMMAND ...: of helm, which waits for the pods
	helm "$@" >"$work/helm.log" 2>&1 || { cat "$work/helm.log" >&2; fail "helm $*"; }
}
images() { kubectl -n odradek get pods -o jsonpath='{.items[*].spec.containers[0].image}' | xargs -n 1 | sort -u; }
commits() { for i in 0 1 2; do kubectl -n odradek exec plant-$i -- /worker version; done | sort -u; }

step_install() {
	say "install: the chart"
	group=$group_of_chart
	values
	kubectl create namespace odradek >/dev/null
	kubectl label namespace odradek pod-security.kubernetes.io/enforce=restricted >/dev/null
	helm lint --strict -f /work/values.yaml /tree/deploy/helm >"$work/helm.log" 2>&1 || { cat "$work/helm.log" >&2; fail "helm lint"; }
	helm template plant /tree/deploy/helm -f /work/values.yaml --validate >"$work/helm.log" 2>&1 || { cat "$work/helm.log" >&2; fail "helm template"; }
	release install plant /tree/deploy/helm -f /work/values.yaml --wait --timeout 3m
	expect_pods 3 plant 10
	judge group 3
	judge live
	[[ $(commits) == *"+$commit "* ]] || fail "the pods run $(commits)"
}

restored() { kubectl -n odradek logs -l app.kubernetes.io/name=odradek --tail -1 | jq -Rs 'split("\n") | map(fromjson? | select(.msg == "restored") | .keys) | add // 0'; }
step_upgrade() {
	say "upgrade: another image"
	unattended "upgrade, three pods" release upgrade plant /tree/deploy/helm -f /work/values.yaml --set-string image.tag=2 --wait --timeout 5m
	[[ $(images) == "$repository:2" && $(commits) == *"+$commit-next "* ]] || fail "after the upgrade the pods run $(images), $(commits)"
	local keys
	keys=$(restored)
	((keys >= 25)) || fail "the new workers have restored $keys sensors, not 25"
	unattended "changed setting, three pods" release upgrade plant /tree/deploy/helm -f /work/values.yaml --set-string image.tag=2 --set config.log_level=debug --wait --timeout 5m
}

step_rollback() {
	say "rollback: to the first revision"
	unattended "rollback, three pods" release rollback plant 1 --wait --timeout 5m
	[[ $(images) == "$repository:1" ]] || fail "after the rollback the pods run $(images)"
	expect_pods 3 plant 10
}

step_scale() {
	say "scale: to two workers"
	unattended "scaled down to two" release upgrade plant /tree/deploy/helm -f /work/values.yaml --set replicas=2 --wait --timeout 5m
	judge group 2
	unattended "scaled up to three" release upgrade plant /tree/deploy/helm -f /work/values.yaml --wait --timeout 5m
	expect_pods 3 plant 10
	judge group 3
}

step_drain() {
	say "drain: the node with more workers"
	local n
	n=$(kubectl -n odradek get pods -o jsonpath='{.items[*].spec.nodeName}' | xargs -n 1 | sort | uniq -d)
	unattended "drained" drain "$n"
	expect_pods 3 plant 60
	[[ ! $(kubectl -n odradek get pods -o jsonpath='{.items[*].spec.nodeName}') == *"$n"* ]] || fail "pods are still on $n"
	grep -q "would violate the pod's disruption budget" "$work/drain.log" || { cat "$work/drain.log" >&2; fail "both workers were evicted at once"; }
	kubectl uncordon "$n" >/dev/null
	judge group 3

	say "drain: workers of which none gets ready may be evicted"
	release install other /tree/deploy/helm -f /work/values.yaml --set 'replicas=2,config.group=other,config.kafka_brokers={kafka-nowhere:9092}'
	unready() { # two run, none is ready
		[[ $(kubectl -n odradek get pods -l app.kubernetes.io/instance=other -o json |
			jq '[.items[].status.containerStatuses[]? | select(.started and (.ready | not))] | length') == 2 ]]
	}
	within 60 unready || fail "workers without brokers do not start, or are ready"
	printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other-0", "namespace": "odradek"}}' >"$work/eviction.json"
	kubectl create --raw /api/v1/namespaces/odradek/pods/other-0/eviction -f /work/eviction.json >"$work/eviction.log" 2>&1 ||
		{ cat "$work/eviction.log" >&2; fail "a worker that is not ready may not be evicted"; }
	release uninstall other
	expect_pods 3 plant 60
}
drain() { kubectl drain "$1" --delete-emptydir-data --timeout=3m >"$work/drain.log" 2>&1 || { cat "$work/drain.log" >&2; fail "kubectl drain"; }; }

step_remove() {
	say "remove: all is scored once"
	kill -TERM "$generator"
	wait "$generator" || fail "generate: $(tail -3 "$work/generate.log")"
	# The same by one worker, which nothing stops.
	beside reference.log ODRADEK_GROUP=reference ODRADEK_TOPICS=sensors ODRADEK_KEY_FIELD=sensor ODRADEK_TIME_FIELD=time ODRADEK_VALUE_FIELDS=value \
		ODRADEK_PRESET=default ODRADEK_HTTP_ADDR=127.0.0.1:9464 "$work/worker" run
	local reference=$!
	judge complete reference
	kill -TERM "$reference"
	release uninstall plant
	empty() { [[ ! $(kubectl -n odradek get all,configmaps,poddisruptionbudgets -o name | grep -v kube-root-ca) ]]; }
	within 60 empty || fail "helm uninstall leaves $(kubectl -n odradek get all,configmaps,poddisruptionbudgets -o name | xargs)"
}

for step in "${steps[@]}"; do
	"step_$step"
done
say "cluster-test: all as expected"

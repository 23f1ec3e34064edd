# The operator's image for those who build with a container engine:
#
#     uv run python tools/image.py --output dist/image
#     docker build -t REGISTRY/tf-job-operator:TAG -f Dockerfile dist/image
#
# The root file system is the one that tools/image.py makes; its archive and this file give the same image.
FROM scratch
ADD rootfs.tar /
ENV PATH=/usr/local/bin \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LANG=C.UTF-8
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/python", "-m", "tfjob"]

FROM python:3.12-slim AS build
RUN pip install --no-cache-dir uv==0.13.9
ENV UV_PROJECT_ENVIRONMENT=/opt/perdure \
    UV_PYTHON_DOWNLOADS=never \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy
WORKDIR /source
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-dev --extra otel --no-install-project
COPY README.md LICENSE ./
COPY perdure ./perdure
RUN uv sync --frozen --no-dev --extra otel --no-editable

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 perdure
COPY --from=build /opt/perdure /opt/perdure
ENV PATH=/opt/perdure/bin:$PATH \
    PYTHONUNBUFFERED=1
USER perdure
WORKDIR /home/perdure
ENTRYPOINT ["perdure"]
CMD ["--help"]

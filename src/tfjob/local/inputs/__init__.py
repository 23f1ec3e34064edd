"""What a pod gets from outside: environment variables, ConfigMaps and Secrets, images (as interpreters), GPUs.

In: a pod and the user's settings. Out: values for its containers, or a Refusal that names what is missing. Start
reading at `environment`.
"""
